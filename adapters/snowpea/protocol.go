package snowpea

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
)

//go:embed protocol.json
var protocolFile []byte

// surface is the whole protocol as data: what exists, served or not.
var surface = mustLoad(protocolFile)

// protocolData is the form of protocol.json.
type protocolData struct {
	ProtocolVersion   string                     `json:"protocolVersion"`
	Capabilities      []string                   `json:"capabilities"`
	Errors            map[string]int             `json:"errors"`
	Methods           map[string]methodData      `json:"methods"`
	Events            map[string]json.RawMessage `json:"events"`
	SessionEventKinds map[string]json.RawMessage `json:"sessionEventKinds"`
}

type methodData struct {
	Direction string          `json:"direction"`
	Params    json.RawMessage `json:"params"`
	Result    json.RawMessage `json:"result"`

	params *schema
}

func mustLoad(data []byte) *protocolData {
	var p protocolData
	if err := json.Unmarshal(data, &p); err != nil {
		panic(fmt.Sprintf("snowpea: protocol.json: %v", err))
	}
	for name, m := range p.Methods {
		m.params = mustSchema(m.Params)
		p.Methods[name] = m
	}
	return &p
}

// served is the document behind GET /protocol.json.
func (p *protocolData) served(serverVersion string) ([]byte, error) {
	type method struct {
		Direction string          `json:"direction"`
		Params    json.RawMessage `json:"params"`
		Result    json.RawMessage `json:"result"`
		Summary   string          `json:"summary"`
	}
	methods := make(map[string]method, len(p.Methods))
	for name, m := range p.Methods {
		methods[name] = method{m.Direction, m.Params, m.Result, summaries[name]}
	}
	words := make([]string, 0, len(p.Errors))
	for w := range p.Errors {
		words = append(words, w)
	}
	slices.Sort(words)
	return json.Marshal(map[string]any{
		"version":           p.ProtocolVersion,
		"protocolVersion":   p.ProtocolVersion,
		"serverVersion":     serverVersion,
		"methods":           methods,
		"events":            p.Events,
		"sessionEventKinds": p.SessionEventKinds,
		"errorCodes":        words,
		"capabilities":      capabilities,
		"transport": map[string]any{"ws": "/ws",
			"http": map[string]string{"health": "/health", "version": "/version", "schema": "/protocol.json"}},
	})
}
