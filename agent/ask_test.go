package agent

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rein-run/rein/host/driver"
)

// teller is a host whose CLI says what the map has for its arguments.
type teller struct {
	place
	says map[string]string
	code int
	hang bool
}

func (h *teller) Output(ctx context.Context, spec *driver.Spec, _ int) ([]byte, []byte, driver.Exit, error) {
	if h.hang {
		<-ctx.Done()
		return nil, nil, driver.Exit{}, ctx.Err()
	}
	out, ok := h.says[strings.Join(spec.Argv[1:], " ")]
	if !ok || !spec.Helper {
		return nil, nil, driver.Exit{}, errors.New("not asked for")
	}
	return nil, []byte(out), driver.Exit{Reason: driver.Exited, Code: &h.code}, nil
}

type patient struct{ stub }

func (patient) HelpArgs(string) [][]string { return [][]string{{"--help"}, {"go", "--help"}} }
func (patient) Flags(string) []string      { return []string{"--model", "--yes", "--gone", "-p"} }
func (patient) LoginArgs(string) []string  { return []string{"status"} }
func (patient) ParseLogin(code int, out []byte) Login {
	if code == 3 && string(out) == "\nin\n" {
		return Login{State: LoggedIn, Detail: "a\nb"}
	}
	return Login{State: LoginUnknown}
}

func TestAskLogin(t *testing.T) {
	h := &teller{says: map[string]string{"status": "in\n"}, code: 3}
	if l := AskLogin(context.Background(), h, patient{}, Facts{Exe: "x"}, nil, nil); l.State != LoggedIn || l.Detail != "a b" {
		t.Errorf("%+v", l)
	}
	if l := AskLogin(context.Background(), &teller{}, patient{}, Facts{Exe: "x"}, nil, nil); l.State != LoginUnknown || l.Detail == "" {
		t.Errorf("%+v", l)
	}
	if l := AskLogin(context.Background(), h, stub{}, Facts{Exe: "x"}, nil, nil); l.State != LoginUnknown {
		t.Errorf("no doctor: %+v", l)
	}
	synctest.Test(t, func(t *testing.T) { // one that asks for a password
		begin := time.Now()
		if l := AskLogin(context.Background(), &teller{hang: true}, patient{}, Facts{Exe: "x"}, nil, nil); l.State != LoginUnknown || time.Since(begin) != askTime {
			t.Errorf("%+v after %v", l, time.Since(begin))
		}
	})
}

func TestMissingFlags(t *testing.T) {
	h := &teller{place: place{exes: map[string]string{"tool": ""}}, says: map[string]string{"--help": "-p, --print\n  --model <m>\n --gone-away\n", "go --help": "[--yes]"}}
	o := &ProbeOptions{Cache: NewCache(filepath.Join(t.TempDir(), "probes.json"))}
	missing, ok := MissingFlags(context.Background(), h, patient{}, Facts{Exe: "/usr/bin/tool"}, o)
	if !ok || !slices.Equal(missing, []string{"--gone"}) {
		t.Errorf("%v %v", missing, ok)
	}
	h.says = nil // kept
	if missing, ok := MissingFlags(context.Background(), h, patient{}, Facts{Exe: "/usr/bin/tool"}, o); !ok || !slices.Equal(missing, []string{"--gone"}) {
		t.Errorf("kept: %v %v", missing, ok)
	}
	h.mtime = time.Unix(1, 0) // another executable
	h.says = map[string]string{"--help": "error: no help for --this\n", "go --help": ""}
	if missing, ok := MissingFlags(context.Background(), h, patient{}, Facts{Exe: "/usr/bin/tool"}, o); ok {
		t.Errorf("an error is taken for a help: %v", missing)
	}
}
