package stub

import (
	"compress/gzip"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Options change how a server answers.
type Options struct {
	// Dir is the directory of relative paths in a script; without it, the one
	// that the agent names in its instructions.
	Dir string
	// Pause is the time after each event of a stream.
	Pause time.Duration
}

// Server is an http.Handler that answers as a model would.
type Server struct {
	opt Options

	mu     sync.Mutex
	failed map[string]bool // scripts whose first try has failed
	log    []Seen
}

// Seen is one request in the log at /_log.
type Seen struct {
	At       time.Time `json:"at"`
	Path     string    `json:"path"`
	Model    string    `json:"model,omitempty"`
	Stream   bool      `json:"stream,omitempty"`
	Step     string    `json:"step,omitempty"`
	Messages int       `json:"messages"`
	Images   int       `json:"images,omitempty"`
	Tools    []string  `json:"tools,omitempty"`
}

// New makes a server.
func New(o Options) *Server { return &Server{opt: o, failed: map[string]bool{}} }

// request is one request for an answer, in neutral terms.
type request struct {
	model    string
	stream   bool
	thinks   bool // reasoning was asked for
	usage    bool // figures were asked for
	messages []message
	tools    []tool
	body     []byte
	dir      string
	tokens   int64   // of the request
	shape    *schema // the answer is to be JSON of this kind
}

// dialect is one wire for asking models.
type dialect struct {
	parse func(path string, body []byte) (*request, error)
	// speak starts an answer. Streamed, its pieces go to out as they are said.
	speak func(r *request, out *stream) voice
	// failure is the status and body of an error.
	failure func(status int, long bool) (int, any)
}

// voice says an answer piece by piece.
type voice interface {
	think(chunks []string, pause time.Duration)
	text(chunks []string, pause time.Duration)
	call(c toolCall)
	// end says why the answer ends, "" if it is complete, and the tokens it
	// cost. It returns the whole answer for those that did not want a stream.
	end(reason string, in, out int64) any
}

// dialects by the end of a path.
var dialects = []struct {
	suffix string
	dialect
}{
	{"/messages", dialect{parseMessages, speakMessages, messagesFailure}},
	{"/responses", dialect{parseResponses, speakResponses, openAIFailure}},
	{"/chat/completions", dialect{parseChat, speakChat, openAIFailure}},
	{":streamGenerateContent", dialect{parseGemini, speakGemini, geminiFailure}},
	{":generateContent", dialect{parseGemini, speakGemini, geminiFailure}},
}

// models are those that the lists name.
var models = []string{"stub-large", "stub-small"}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	switch r.Method {
	case http.MethodHead:
		return
	case http.MethodGet:
		s.get(w, path)
		return
	case http.MethodPost:
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		reply(w, http.StatusMethodNotAllowed, wrong("method not allowed"))
		return
	}
	body, err := read(w, r)
	if err != nil {
		status := http.StatusBadRequest
		var tooBig *http.MaxBytesError
		if errors.As(err, &tooBig) || errors.Is(err, errTooBig) {
			status = http.StatusRequestEntityTooLarge
		}
		reply(w, status, wrong(err.Error()))
		return
	}
	switch {
	case strings.HasSuffix(path, "/count_tokens"):
		reply(w, http.StatusOK, object{"input_tokens": tokens(body)})
		return
	case strings.HasSuffix(path, ":countTokens"):
		reply(w, http.StatusOK, object{"totalTokens": tokens(body)})
		return
	}
	for _, d := range dialects {
		if strings.HasSuffix(path, d.suffix) {
			s.ask(w, r, d.dialect, body)
			return
		}
	}
	reply(w, http.StatusNotFound, wrong("no such route: "+path))
}

func (s *Server) get(w http.ResponseWriter, path string) {
	switch {
	case path == "/_log":
		s.mu.Lock()
		seen := append([]Seen{}, s.log...)
		s.mu.Unlock()
		reply(w, http.StatusOK, seen)
	case strings.HasSuffix(path, "/v1beta/models"):
		var list []any
		for _, m := range models {
			list = append(list, object{"name": "models/" + m, "displayName": m, "supportedGenerationMethods": []string{"generateContent"}})
		}
		reply(w, http.StatusOK, object{"models": list})
	case strings.HasSuffix(path, "/models"):
		var list []any
		for _, m := range models {
			list = append(list, object{"id": m, "object": "model", "type": "model", "display_name": m, "owned_by": "stub",
				"created": 1_735_689_600, "created_at": "2025-01-01T00:00:00Z"})
		}
		reply(w, http.StatusOK, object{"object": "list", "data": list, "has_more": false, "first_id": models[0], "last_id": models[len(models)-1]})
	default:
		reply(w, http.StatusNotFound, wrong("no such route: "+path))
	}
}

// ask answers with what the script says.
func (s *Server) ask(w http.ResponseWriter, r *http.Request, d dialect, body []byte) {
	req, err := d.parse(r.URL.Path, body)
	if err != nil {
		reply(w, http.StatusBadRequest, wrong(err.Error()))
		return
	}
	req.body, req.dir, req.tokens = body, s.opt.Dir, tokens(body)
	sc := next(req.messages)
	// Who wants JSON asks about the conversation, and is not its next turn.
	if req.shape != nil || len(req.tools) == 0 && req.aside(sc.step) {
		sc = script{}
	}
	s.note(r.URL.Path, req, sc)
	pieces := s.answer(req, sc)
	if first := pieces[0]; first.kind == fail {
		if first.after > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(first.after))
		}
		status, body := d.failure(first.status, first.long)
		reply(w, status, body)
		return
	}
	out := &stream{ctx: r.Context(), pause: s.opt.Pause}
	if req.stream {
		out.w = w
		out.flush = http.NewResponseController(w)
	}
	play(w, req, d.speak(req, out), out, pieces)
}

// aside tells whether a request without tools is one that agents make beside
// the conversation, for a title or a summary: tools were not offered, so a step
// that calls one is not meant for it.
func (r *request) aside(step string) bool {
	for _, verb := range []string{"say", "slow", "text:", "ask", "think", "images", "fail", "cut", "hang", "usage", "refuse", "maxtok", "overflow"} {
		if strings.HasPrefix(step, verb) && !strings.HasPrefix(step, "text+") {
			return false
		}
	}
	return step != ""
}

// play says the pieces of an answer.
func play(w http.ResponseWriter, r *request, v voice, out *stream, pieces []piece) {
	reason, in, spoken := "", r.tokens, int64(0)
	var told *piece
	for i, p := range pieces {
		switch p.kind {
		case think:
			if r.thinks {
				v.think(p.chunks, p.pause)
				spoken += int64(len(p.chunks))
			}
		case text:
			v.text(p.chunks, p.pause)
			spoken += int64(len(p.chunks))
		case call:
			v.call(p.call)
			spoken += tokens(mustJSON(p.call.args))
		case stop:
			reason = p.reason
		case usage:
			told = &pieces[i]
		case cut:
			panic(http.ErrAbortHandler) // the server drops the connection
		case hang:
			out.comment()
			sleep(out.ctx, maxHang)
			panic(http.ErrAbortHandler)
		}
		if out.ctx.Err() != nil {
			return
		}
	}
	if told != nil {
		in, spoken = told.in, told.out
	}
	whole := v.end(reason, in, max(1, spoken))
	if !r.stream {
		reply(w, http.StatusOK, whole)
	}
}

func (s *Server) note(path string, r *request, sc script) {
	seen := Seen{At: time.Now().UTC(), Path: path, Model: r.model, Stream: r.stream, Step: sc.step, Messages: len(r.messages), Images: images(r.messages)}
	for _, t := range r.tools {
		seen.Tools = append(seen.Tools, t.name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.log) == maxLog {
		s.log = append(s.log[:0], s.log[1:]...)
	}
	s.log = append(s.log, seen)
}

// first tells whether a script is asked for the first time.
func (s *Server) first(source string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed[source] {
		return false
	}
	if len(s.failed) >= maxLog {
		clear(s.failed)
	}
	s.failed[source] = true
	return true
}

type object = map[string]any

func wrong(message string) any {
	return object{"type": "error", "error": object{"type": "invalid_request_error", "message": message}}
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(mustJSON(body))
}

var errTooBig = errors.New("request too large")

func read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	var in io.Reader = http.MaxBytesReader(w, r.Body, maxBody)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		in = z
	}
	body, err := io.ReadAll(io.LimitReader(in, maxBody+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the request: %w", err)
	case len(body) > maxBody:
		return nil, errTooBig
	case !json.Valid(body):
		return nil, errors.New("the request is not JSON")
	}
	return body, nil
}

func tokens(b []byte) int64 { return max(1, int64(len(b))/charsPerToken) }

// name makes an id as models give them.
func name(prefix string) string { return prefix + strings.ToLower(rand.Text()[:24]) }
