package zidane

import (
	"os"
	"runtime/debug"

	"github.com/polyhost/polyhost/transports/jsonrpc"
)

// earlyMethods are answered before the handshake too, in the reader.
var earlyMethods map[string]func(*conn, *jsonrpc.Request) (any, error)

func init() {
	earlyMethods = map[string]func(*conn, *jsonrpc.Request) (any, error){
		"ipc.hello":   (*conn).hello,
		"$/ping":      func(*conn, *jsonrpc.Request) (any, error) { return struct{}{}, nil },
		"daemon.info": func(c *conn, _ *jsonrpc.Request) (any, error) { return c.f.daemon(), nil },
		// No client can stop a server.
		"daemon.shutdown": func(*conn, *jsonrpc.Request) (any, error) { return okResult{false}, nil },
	}
}

type helloParams struct {
	ProtocolVersion    *int   `json:"protocolVersion" jsonx:"required"`
	MinProtocolVersion *int   `json:"minProtocolVersion"`
	AppVersion         string `json:"appVersion"`
	PID                *int64 `json:"pid"`
}

// daemonInfo is what the server says of itself.
type daemonInfo struct {
	ProtocolVersion    int    `json:"protocolVersion"`
	MinProtocolVersion int    `json:"minProtocolVersion"`
	AppVersion         string `json:"appVersion"`
	PID                int    `json:"pid"`
	StartedAt          int64  `json:"startedAt"`
	BuildID            string `json:"buildId"`
	CodeVersion        string `json:"codeVersion"`
	HostID             string `json:"hostId"`
	HostKind           string `json:"hostKind"`
	HostName           string `json:"hostName"`
}

type helloResult struct {
	daemonInfo
	NegotiatedProtocolVersion int      `json:"negotiatedProtocolVersion"`
	SignalEpoch               string   `json:"signalEpoch"`
	Methods                   []string `json:"methods"`
	// CreateFolders is left out where it is off.
	CreateFolders bool `json:"createFolders,omitempty"`
}

func (f *Front) daemon() daemonInfo {
	return daemonInfo{
		ProtocolVersion: protocolVersion, MinProtocolVersion: minProtocolVersion,
		AppVersion: f.deps.Version, PID: os.Getpid(), StartedAt: f.startedAt.UnixMilli(),
		BuildID: buildID(f.deps.Version), CodeVersion: f.deps.Version,
		HostID: f.hostID, HostKind: "server", HostName: f.hostName,
	}
}

// buildID tells builds of one version apart, where the build says what it is.
func buildID(version string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return version
}

// negotiate picks the higher version that both sides speak; 0 is none.
func negotiate(lowest, highest int) int {
	if v := min(highest, protocolVersion); v >= max(lowest, minProtocolVersion) {
		return v
	}
	return 0
}

// hello is the handshake. Saying it again is harmless.
func (c *conn) hello(r *jsonrpc.Request) (any, error) {
	var p helloParams
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	lowest := *p.ProtocolVersion
	if p.MinProtocolVersion != nil {
		lowest = *p.MinProtocolVersion
	}
	if lowest > *p.ProtocolVersion {
		return nil, badField("minProtocolVersion", "it is above protocolVersion")
	}
	version := negotiate(lowest, *p.ProtocolVersion)
	if version == 0 {
		upgrade := "client"
		if lowest > protocolVersion {
			upgrade = "server"
		}
		e := jsonrpc.Errorf(codeVersionMismatch, "Protocol version mismatch: the server speaks v%d, the client v%d. Upgrade the %s.",
			protocolVersion, *p.ProtocolVersion, upgrade)
		e.Data = struct {
			Daemon daemonInfo `json:"daemon"`
		}{c.f.daemon()}
		return nil, e
	}
	c.attach()
	c.ws.SetReadLimit(readLimit)
	r.Then(func() {
		c.greeted.Store(true)
		c.release()
	})
	return helloResult{daemonInfo: c.f.daemon(), NegotiatedProtocolVersion: version, SignalEpoch: c.f.signals.epoch,
		Methods: callable(c.scope), CreateFolders: c.f.settingOn("allowCreateFolders")}, nil
}
