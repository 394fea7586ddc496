package bae

import (
	"net/http"
	"slices"
)

// items is a list without pages.
type items[T any] struct {
	Items []T `json:"items"`
}

func (f *Front) mcpServers(w http.ResponseWriter, _ *http.Request) {
	type server struct {
		Name      string `json:"name"`
		Transport string `json:"transport"`
	}
	writeJSON(w, http.StatusOK, items[server]{[]server{}})
}

type providerView struct {
	Name     string  `json:"name"`
	Provider string  `json:"provider"`
	Model    string  `json:"model"`
	BaseURL  *string `json:"base_url"`
}

func (f *Front) providerViews() []providerView {
	out := []providerView{}
	names := []string{defaultProvider}
	for _, a := range f.host.Agents() {
		names = append(names, a.Name)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if p, ok := f.provider(name); ok {
			out = append(out, providerView{name, p.Provider, p.Model, ptr(baseURL(p.Provider))})
		}
	}
	return out
}

func (f *Front) providers(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, items[providerView]{f.providerViews()})
}

func (f *Front) sandboxStatus(w http.ResponseWriter, _ *http.Request) {
	type status struct {
		Profile string `json:"profile_id"`
		images
	}
	out := []status{}
	for _, p := range f.registry.listProfiles() {
		if len(p.Sandboxes) > 0 {
			out = append(out, status{p.ID, imagesOf(p)})
		}
	}
	writeJSON(w, http.StatusOK, items[status]{out})
}

func (f *Front) config(w http.ResponseWriter, _ *http.Request) {
	type entries struct {
		Entries []providerView `json:"entries"`
	}
	type servers struct {
		Servers []struct{} `json:"servers"`
	}
	writeJSON(w, http.StatusOK, struct {
		MCP       servers        `json:"mcp"`
		Providers entries        `json:"providers"`
		Telemetry map[string]any `json:"telemetry"`
	}{servers{[]struct{}{}}, entries{f.providerViews()}, map[string]any{}})
}
