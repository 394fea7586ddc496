package forge

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

var repo = Repository{"o", "r"}

func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	c := New(s.URL, func() string { return "" })
	t.Cleanup(func() { c.Close(); s.Close() })
	return c
}

func TestAPullRequestIsFoundAndOpened(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("the token: %q", r.Header.Get("Authorization"))
		}
		switch r.Method + " " + r.URL.Path {
		case "GET /repos/o/r":
			_, _ = w.Write([]byte(`{"default_branch":"trunk"}`))
		case "GET /repos/o/r/pulls":
			if r.URL.Query().Get("head") != "o:a/topic" {
				_, _ = w.Write([]byte(`[]`))
				return
			}
			_, _ = w.Write([]byte(`[{"number":7,"html_url":"https://example.com/o/r/pull/7","state":"closed","merged_at":"2026-01-01T00:00:00Z","head":{"ref":"a/topic"}}]`))
		case "POST /repos/o/r/pulls":
			var p map[string]any
			if err := json.NewDecoder(r.Body).Decode(&p); err != nil || p["title"] != "T" || p["body"] != "B" || p["head"] != "topic" || p["base"] != "trunk" || p["draft"] != true {
				t.Errorf("%v %v", p, err)
			}
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write([]byte(`{"number":8,"html_url":"https://example.com/o/r/pull/8","state":"open","head":{"ref":"topic"}}`))
		}
	})
	if p, err := c.Newest(t.Context(), "secret", repo, "a/topic"); err != nil || *p != (PullRequest{7, "https://example.com/o/r/pull/7", "merged", "a/topic"}) {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := c.Newest(t.Context(), "secret", repo, "other"); err != nil || p != nil {
		t.Errorf("%+v, %v", p, err)
	}
	if b, err := c.DefaultBranch(t.Context(), "secret", repo); err != nil || b != "trunk" {
		t.Errorf("%q, %v", b, err)
	}
	if p, err := c.Open(t.Context(), "secret", repo, Proposal{"T", "B", "topic", "trunk", true}); err != nil || p.Number != 8 || p.State != "open" {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := c.Open(t.Context(), "", repo, Proposal{}); !errors.Is(err, ErrNoToken) {
		t.Errorf("without a token: %v", err)
	}
}

func TestWhatTheForgeRefusesIsSaidAndNoMore(t *testing.T) {
	t.Parallel()
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") })
	for _, row := range []struct {
		status int
		body   string
		want   error
		text   string
	}{
		{401, `{"message":"Bad credentials"}`, ErrNoToken, "does not take"},
		{403, `{"message":"Resource not\naccessible"}`, ErrRefused, "Resource not accessible"},
		{404, ``, ErrNotFound, ""},
		{422, `{"message":"Validation Failed","errors":[{"message":"A pull request already exists"}]}`, ErrRefused, "already exists"},
		{422, `{"message":"` + strings.Repeat("x", 5000) + `"}`, ErrRefused, "xxx"},
		{500, `oops`, ErrUnreachable, "500"},
		{302, ``, ErrUnreachable, "302"},
		{200, `no JSON`, ErrUnreachable, ""},
		{200, strings.Repeat(" ", maxAnswer+1), ErrUnreachable, ""},
		{200, `{"number":1,"html_url":"javascript:alert(1)","state":"open"}`, ErrUnreachable, ""},
		{200, `{"number":0,"html_url":"https://example.com","state":"open"}`, ErrUnreachable, ""},
	} {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", elsewhere.base)
			w.WriteHeader(row.status)
			_, _ = w.Write([]byte(row.body))
		})
		_, err := c.Open(t.Context(), "secret", repo, Proposal{})
		if !errors.Is(err, row.want) || !strings.Contains(err.Error(), row.text) || len(err.Error()) > 500 || strings.Contains(err.Error(), "secret") {
			t.Errorf("%d %.40s: %v", row.status, row.body, err)
		}
	}
	gone := New("http://127.0.0.1:1", func() string { return "own" })
	if _, err := gone.DefaultBranch(t.Context(), gone.Token(""), repo); !errors.Is(err, ErrUnreachable) || strings.Contains(err.Error(), "own") {
		t.Errorf("nobody there: %v", err)
	}
}
