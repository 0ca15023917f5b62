package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/rein-run/rein/host/driver"
)

// startMsg is driver.Spec on the wire. Strings travel as bytes (base64 in
// JSON): an argument or a directory need not be UTF-8, and encoding/json would
// replace what is not. Values of the environment are in here and nowhere else;
// never in an argv.
type startMsg struct {
	ID          string             `json:"id,omitempty"`
	Argv        [][]byte           `json:"argv"`
	Env         []envMsg           `json:"env,omitempty"`
	Unset       [][]byte           `json:"unset,omitempty"`
	Dir         []byte             `json:"dir,omitempty"`
	Duplex      bool               `json:"duplex,omitempty"`
	MergeStderr bool               `json:"merge,omitempty"`
	Grace       time.Duration      `json:"grace,omitempty"`
	Drain       time.Duration      `json:"drain,omitempty"`
	TTL         time.Duration      `json:"ttl,omitempty"`
	Containment driver.Containment `json:"containment,omitempty"`
	Helper      bool               `json:"helper,omitempty"`

	Ask    *filesMsg `json:"ask,omitempty"`
	Folder *filesMsg `json:"folder,omitempty"`

	Announce bool `json:"announce,omitempty"` // the client reads the spool itself: offsets, no data
	Require  bool `json:"require,omitempty"`  // refuse when only the marker would hold the tree
}

type filesMsg struct {
	Dir   []byte        `json:"dir"`
	Files []driver.File `json:"files,omitempty"`
}

type envMsg struct {
	Name  []byte `json:"n"`
	Value []byte `json:"v"`
}

func newStartMsg(spec *driver.Spec, o *ClientOptions, announce bool) *startMsg {
	m := &startMsg{
		ID: spec.ID, Dir: []byte(spec.Dir), Env: envMsgs(spec.Env),
		Duplex: spec.Duplex, MergeStderr: spec.MergeStderr,
		Grace: spec.Grace, Drain: spec.Drain, TTL: spec.TTL,
		Containment: spec.Containment, Helper: spec.Helper,
		Announce: announce, Require: o.RequireContainment,
	}
	if spec.Ask != nil {
		m.Ask = &filesMsg{[]byte(spec.Ask.Dir), spec.Ask.Files}
	}
	if spec.Folder != nil {
		m.Folder = &filesMsg{[]byte(spec.Folder.Dir), spec.Folder.Files}
	}
	for _, a := range spec.Argv {
		m.Argv = append(m.Argv, []byte(a))
	}
	for _, u := range spec.Unset {
		m.Unset = append(m.Unset, []byte(u))
	}
	return m
}

func envMsgs(env driver.Env) []envMsg {
	var out []envMsg
	for _, n := range env.Names() {
		out = append(out, envMsg{[]byte(n), []byte(env[n])})
	}
	return out
}

func envOf(msgs []envMsg) driver.Env {
	env := make(driver.Env, len(msgs))
	for _, m := range msgs {
		env[string(m.Name)] = string(m.Value)
	}
	return env
}

func (m *startMsg) spec() *driver.Spec {
	s := &driver.Spec{
		ID: m.ID, Dir: string(m.Dir), Env: envOf(m.Env),
		Duplex: m.Duplex, MergeStderr: m.MergeStderr,
		Grace: m.Grace, Drain: m.Drain, TTL: m.TTL,
		Containment: m.Containment, Helper: m.Helper,
	}
	if m.Ask != nil {
		s.Ask = &driver.Ask{Dir: string(m.Ask.Dir), Files: m.Ask.Files}
	}
	if m.Folder != nil {
		s.Folder = &driver.Folder{Dir: string(m.Folder.Dir), Files: m.Folder.Files}
	}
	for _, a := range m.Argv {
		s.Argv = append(s.Argv, string(a))
	}
	for _, u := range m.Unset {
		s.Unset = append(s.Unset, string(u))
	}
	return s
}

type lookMsg struct {
	Name []byte   `json:"name,omitempty"`
	Env  []envMsg `json:"env,omitempty"`
}

type startedMsg struct {
	PID         int                `json:"pid"`
	Containment driver.Containment `json:"containment"`
	Spooled     bool               `json:"spooled,omitempty"` // offsets will come, no data
	Stdout      string             `json:"stdout,omitempty"`
	Stderr      string             `json:"stderr,omitempty"`
}

type answerMsg struct {
	Survivors []driver.Proc `json:"survivors,omitempty"`
	Err       string        `json:"err,omitempty"`
}

// refusedMsg carries the typed errors of package driver across the stream.
type refusedMsg struct {
	Why  string `json:"why"` // one of the words below
	Name string `json:"name,omitempty"`
	Path string `json:"path,omitempty"`
	Text string `json:"text,omitempty"`
}

const (
	whyNotFound    = "not_found"
	whyNoDir       = "no_dir"
	whyArgument    = "argument"
	whyContainment = "containment"
	whyOther       = "other"
)

func newRefusedMsg(err error) *refusedMsg {
	var nf *driver.NotFoundError
	switch {
	case errors.As(err, &nf):
		return &refusedMsg{Why: whyNotFound, Name: nf.Name, Path: nf.Path, Text: nf.Why}
	case errors.Is(err, driver.ErrNoDir):
		return &refusedMsg{Why: whyNoDir, Text: detail(err, driver.ErrNoDir)}
	case errors.Is(err, driver.ErrArgument):
		return &refusedMsg{Why: whyArgument, Text: detail(err, driver.ErrArgument)}
	case errors.Is(err, driver.ErrContainment):
		return &refusedMsg{Why: whyContainment, Text: detail(err, driver.ErrContainment)}
	}
	return &refusedMsg{Why: whyOther, Text: err.Error()}
}

func (m *refusedMsg) err() error {
	switch m.Why {
	case whyNotFound:
		return &driver.NotFoundError{Name: m.Name, Path: m.Path, Why: m.Text}
	case whyNoDir:
		return refuse(driver.ErrNoDir, m.Text)
	case whyArgument:
		return refuse(driver.ErrArgument, m.Text)
	case whyContainment:
		return refuse(driver.ErrContainment, m.Text)
	}
	return errors.New(m.Text)
}

// refusal is a sentinel with the one thing to say about this case.
type refusal struct {
	sentinel error
	text     string
}

func refuse(sentinel error, text string) error { return &refusal{sentinel, text} }

func (e *refusal) Error() string {
	if e.text == "" {
		return e.sentinel.Error()
	}
	return e.sentinel.Error() + ": " + e.text
}

func (e *refusal) Unwrap() error { return e.sentinel }

func detail(err, sentinel error) string {
	var r *refusal
	if errors.As(err, &r) && r.sentinel == sentinel {
		return r.text
	}
	return err.Error()
}

// encode marshals a message; a type of ours that does not marshal is a bug.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("keeper: " + err.Error())
	}
	return b
}

// decodeFirst reads the payload of the first frame of a direction.
func decodeFirst(p []byte, v any) error {
	if len(p) == 0 || p[0] != version {
		got := -1
		if len(p) > 0 {
			got = int(p[0])
		}
		return fmt.Errorf("%w: version %d, this is %d: keeper and client must be of one release", errFrame, got, version)
	}
	return decode(p[1:], v)
}

func decode(p []byte, v any) error {
	if err := json.Unmarshal(p, v); err != nil {
		return fmt.Errorf("%w: %w", errFrame, err)
	}
	return nil
}

var versionByte = []byte{version}

// signals maps the names of package driver to numbers. Windows knows them too
// by package syscall; whether it can send them is for package proctree.
func signalNumber(s driver.Signal) (syscall.Signal, bool) {
	switch s {
	case driver.Interrupt:
		return syscall.SIGINT, true
	case driver.Terminate:
		return syscall.SIGTERM, true
	}
	return 0, false
}
