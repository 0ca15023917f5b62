package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rein-run/rein/host/driver"
)

// place is a host with the executables of the map, which print what it says.
type place struct {
	exes   map[string]string
	stderr bool
	code   int
	mtime  time.Time
	hang   bool
	asked  int
}

func (p *place) Look(_ context.Context, name string, _ driver.Env) (*driver.Place, error) {
	if _, ok := p.exes[filepath.Base(name)]; !ok {
		return nil, &driver.NotFoundError{Name: name, Path: "/usr/bin:/bin"}
	}
	return &driver.Place{OS: "linux", UID: 7, Home: "/home/u", Path: "/usr/bin:/bin", Exe: "/usr/bin/" + filepath.Base(name), Size: 5, ModTime: p.mtime}, nil
}

func (p *place) Output(ctx context.Context, spec *driver.Spec, limit int) (stdout, stderr []byte, exit driver.Exit, err error) {
	p.asked++
	if p.hang {
		<-ctx.Done()
		return nil, nil, driver.Exit{}, ctx.Err()
	}
	exit = driver.Exit{Reason: driver.Exited, Code: &p.code}
	if !spec.Helper || len(spec.Argv) != 2 || limit <= 0 {
		return nil, nil, exit, errors.New("not a short command")
	}
	out := []byte(p.exes[filepath.Base(spec.Argv[0])])
	if p.stderr {
		return nil, out, exit, nil
	}
	return out, nil, exit, nil
}

type probed struct{ stub }

func (probed) VersionArgs() []string { return []string{"--version"} }
func (probed) ParseVersion(out []byte) string {
	v, ok := strings.CutPrefix(strings.TrimSpace(string(out)), "tool ")
	if !ok {
		return ""
	}
	return v
}

var tool = probed{stub{"tool", Capabilities{Executables: []string{"tool", "tool2"}, Install: "npm install -g tool"}}}

func TestProbe(t *testing.T) {
	for _, stderr := range []bool{false, true} {
		h := &place{exes: map[string]string{"tool2": "tool 1.2.3\n"}, stderr: stderr}
		f, err := Probe(t.Context(), h, tool, nil)
		if err != nil || f.Version != "1.2.3" || f.Exe != "/usr/bin/tool2" || f.UID != 7 || f.Home != "/home/u" || f.OS != "linux" {
			t.Errorf("stderr %v: %+v %v", stderr, f, err)
		}
	}
	_, err := Probe(t.Context(), &place{}, tool, nil)
	var ni *NotInstalledError
	if !errors.As(err, &ni) || !errors.Is(err, driver.ErrNotFound) ||
		!strings.Contains(err.Error(), "npm install -g tool") || !strings.Contains(err.Error(), "/usr/bin:/bin") || !strings.Contains(err.Error(), "tool or tool2") {
		t.Errorf("missing: %v", err)
	}
	broken := &place{exes: map[string]string{"tool": "at file:///x\nSyntaxError: no such export\n\nNode.js v20\n"}, code: 1, stderr: true}
	if _, err := Probe(t.Context(), broken, tool, nil); err == nil || !strings.Contains(err.Error(), "SyntaxError: no such export") || !strings.Contains(err.Error(), "exit code 1") {
		t.Errorf("broken: %v", err)
	}
	other := &place{exes: map[string]string{"tool": "hello"}}
	if f, err := Probe(t.Context(), other, tool, nil); err != nil || f.Version != "" {
		t.Errorf("another form: %+v %v", f, err)
	}
	named := &place{exes: map[string]string{"my-tool": "tool 9.9.9"}}
	if f, err := Probe(t.Context(), named, tool, &ProbeOptions{Exe: "/opt/my-tool"}); err != nil || f.Version != "9.9.9" {
		t.Errorf("named: %+v %v", f, err)
	}
}

func TestProbeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := Probe(t.Context(), &place{exes: map[string]string{"tool": ""}, hang: true}, tool, nil)
		if err == nil || !strings.Contains(err.Error(), "/usr/bin/tool --version did not end within 30s") {
			t.Errorf("%v", err)
		}
		if took := time.Since(began); took != probeTime {
			t.Errorf("took %v", took)
		}
	})
}

func TestCache(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "probes.json")
	h := &place{exes: map[string]string{"tool": "tool 1.0.0"}, mtime: time.Unix(1, 0)}
	ask := func(host string) string {
		t.Helper()
		f, err := Probe(t.Context(), h, tool, &ProbeOptions{HostName: host, Cache: NewCache(file)})
		if err != nil {
			t.Fatal(err)
		}
		return f.Version
	}
	step := func(what string, got, want string, asked int) {
		t.Helper()
		if got != want || h.asked != asked {
			t.Errorf("%s: %s after %d questions, want %s after %d", what, got, h.asked, want, asked)
		}
	}
	step("first", ask("a"), "1.0.0", 1)
	step("again", ask("a"), "1.0.0", 1)
	step("another host", ask("b"), "1.0.0", 2)
	h.exes["tool"], h.mtime = "tool 2.0.0", time.Unix(2, 0)
	step("a new executable", ask("a"), "2.0.0", 3)

	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".probe-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := os.WriteFile(file, []byte(`{"x":`), 0o600); err != nil {
		t.Fatal(err)
	}
	step("a corrupt file", ask("a"), "2.0.0", 4)
	step("which is mended", ask("a"), "2.0.0", 4)

	// A link that somebody put there is not followed, neither to read nor to
	// write.
	target := filepath.Join(t.TempDir(), "target")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(target, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, file); err != nil {
		t.Skip("no symlinks here:", err)
	}
	step("a link", ask("a"), "2.0.0", 5)
	if after, _ := os.ReadFile(target); string(after) != string(b) {
		t.Error("the link was written through")
	}
}
