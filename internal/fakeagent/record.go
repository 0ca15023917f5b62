package fakeagent

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// Record is what one run of the program was given.
type Record struct {
	Name  string            `json:"name"` // of the CLI that it is
	PID   int               `json:"pid"`
	Argv  []string          `json:"argv"`
	Dir   string            `json:"dir"`
	Env   []string          `json:"env"` // names, sorted
	Value map[string]string `json:"value,omitempty"`
	Stdin []byte            `json:"stdin"` // what had been read when the record was written
	EOF   bool              `json:"eof"`   // stdin had been read to its end
}

// Records reads the file that EnvRecord named: one a run, and one more for a
// run that reads its stdin late.
func Records(file string) ([]Record, error) { return readLines[Record](file) }

// Proc is a process that the program started.
type Proc struct {
	PID int    `json:"pid"`
	How string `json:"how"`
}

// Procs reads the file that EnvPids named.
func Procs(file string) ([]Proc, error) { return readLines[Proc](file) }

func readLines[T any](file string) (all []T, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for dec := json.NewDecoder(bufio.NewReader(f)); ; {
		var v T
		if err := dec.Decode(&v); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return all, nil // the last line may be half written
			}
			return all, err
		}
		all = append(all, v)
	}
}

// appendLine adds one line with one write, so that writers do not mix.
func appendLine(file string, v any) error {
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(marshal(v), '\n'))
	return errors.Join(err, f.Close())
}

func (a *agent) record(stdin []byte, eof bool) error {
	r := Record{Name: a.name, PID: os.Getpid(), Argv: os.Args, Stdin: stdin, EOF: eof}
	r.Dir, _ = os.Getwd()
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		r.Env = append(r.Env, name)
	}
	slices.Sort(r.Env)
	for _, name := range a.Record {
		if v, ok := os.LookupEnv(name); ok {
			if r.Value == nil {
				r.Value = map[string]string{}
			}
			r.Value[name] = v
		}
	}
	return appendLine(os.Getenv(EnvRecord), r)
}

// readStdin reads the prompt first, as the real CLIs do, and records the run.
func (a *agent) readStdin() error {
	if a.Stdin != "" {
		return a.record(nil, false)
	}
	in, eof := slurp(60 * time.Second)
	return a.record(in, eof)
}

// slurp reads stdin to its end, or for as long as d.
func slurp(d time.Duration) ([]byte, bool) {
	done := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(os.Stdin)
		done <- b
	}()
	select {
	case b := <-done:
		return b, true
	case <-time.After(d):
		return nil, false
	}
}
