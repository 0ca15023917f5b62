//go:build unix

package keeper

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/keeper/proctree"
)

func TestEnviron(t *testing.T) {
	for _, c := range []struct {
		name string
		base []string
		spec driver.Spec
		want []string
		mark string
	}{
		{"layers", []string{"A=1", "B=2"}, driver.Spec{Env: driver.Env{"B": "3", "C": "false"}}, []string{"A=1", "B=3", "C=false"}, ""},
		{"unset is absent", []string{"A=1", "B=2"}, driver.Spec{Unset: []string{"A", "X"}}, []string{"B=2"}, ""},
		{"unset beats set", []string{"A=1"}, driver.Spec{Env: driver.Env{"A": "2"}, Unset: []string{"A"}}, nil, ""},
		{"empty is not unset", nil, driver.Spec{Env: driver.Env{"A": ""}}, []string{"A="}, ""},
		{"the last duplicate wins", []string{"A=1", "A=2"}, driver.Spec{}, []string{"A=2"}, ""},
		{"no name, no variable", []string{"=x", "y", "A=1"}, driver.Spec{}, []string{"A=1"}, ""},
		{"values hold anything", []string{"A=b=c\n"}, driver.Spec{}, []string{"A=b=c\n"}, ""},
		{"marker", nil, driver.Spec{ID: "in"}, []string{"REIN_RUN=in@t"}, "in@t"},
		{"marker inside a run", []string{"REIN_RUN=out"}, driver.Spec{ID: "in"}, []string{"REIN_RUN=out/in@t"}, "out/in@t"},
		{"marker cannot be talked away", []string{"REIN_RUN=out"}, driver.Spec{ID: "in", Unset: []string{"REIN_RUN"}, Env: driver.Env{"REIN_RUN": "x"}}, []string{"REIN_RUN=out/in@t"}, "out/in@t"},
		{"no id, the outer marker stays", []string{"REIN_RUN=out"}, driver.Spec{}, []string{"REIN_RUN=out"}, ""},
	} {
		got, mark := environ(c.base, &c.spec, "@t")
		if !slices.Equal(got, c.want) || mark != c.mark {
			t.Errorf("%s: %q %q, want %q %q", c.name, got, mark, c.want, c.mark)
		}
	}
}

func TestResolve(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	file := func(name string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte("#!/bin/true\n"), mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	a := file("a/tool", 0o755)
	b := file("b/tool", 0o755)
	file("c/tool", 0o644)
	here := file("here", 0o755)
	os.MkdirAll("d/tool", 0o755)
	os.MkdirAll("e", 0o755)
	os.Symlink("/no/such", "e/tool")
	abs := func(names ...string) string {
		for i, n := range names {
			if n != "" {
				names[i] = filepath.Join(dir, n)
			}
		}
		return strings.Join(names, ":")
	}
	for _, c := range []struct{ name, path, want, why string }{
		{"tool", abs("a", "b"), a, ""},
		{"tool", abs("no", "b", "a"), b, ""},
		{"tool", abs("c", "d", "e", "b"), b, ""}, // passed over
		{"tool", "a", a, ""},                     // relative: to this directory
		{"tool", abs("c"), "", "not executable"},
		{"tool", abs("d"), "", "is a directory"},
		{"tool", abs("e"), "", "symbolic link to nothing"},
		{"here", abs("no", ""), here, ""}, // an empty element is this directory
		{"here", "", here, ""},
		{"here", abs("a"), "", ""}, // and it is not searched otherwise
		{a, "", a, ""},
		{"./a/tool", abs("b"), a, ""},
		{"a/tool", "", a, ""},
		{"./c/tool", "", "", "not executable"},
		{"./d/tool", "", "", "is a directory"},
		{"./none", "", "", "no such file"},
		{"", abs("a"), "", "empty"},
	} {
		got, err := resolve(c.name, c.path)
		if got != c.want {
			t.Errorf("resolve(%q, %q) = %q, %v; want %q", c.name, c.path, got, err, c.want)
		}
		if c.want == "" && (!errors.Is(err, driver.ErrNotFound) || !strings.Contains(err.Error(), c.why)) {
			t.Errorf("resolve(%q, %q): %v, want a not found with %q", c.name, c.path, err, c.why)
		}
	}
}

// What is refused is refused in a type, and leaves nothing.
func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return p
	}
	plain := script("plain", "echo no first line\n")
	lost := script("lost", "#!/no/such/interpreter\n")
	for _, c := range []struct {
		name string
		spec driver.Spec
		is   error
		text string
	}{
		{"no such name", driver.Spec{Argv: []string{"no-such-thing"}, Env: driver.Env{"PATH": "/nowhere"}}, driver.ErrNotFound, "PATH (/nowhere)"},
		{"no such file", driver.Spec{Argv: []string{"/no/such/file"}}, driver.ErrNotFound, "no such file"},
		{"no interpreter line", driver.Spec{Argv: []string{plain}}, driver.ErrNotFound, "#! line"},
		{"no interpreter", driver.Spec{Argv: []string{lost}}, driver.ErrNotFound, "interpreter"},
		{"no directory", driver.Spec{Argv: []string{"true"}, Dir: "/no/such/dir"}, driver.ErrNoDir, "/no/such/dir"},
		{"a file for a directory", driver.Spec{Argv: []string{"true"}, Dir: plain}, driver.ErrNoDir, "not a directory"},
		{"no argv", driver.Spec{}, driver.ErrArgument, "empty"},
		{"NUL", driver.Spec{Argv: []string{"true", "a\x00b"}}, driver.ErrArgument, "NUL"},
		{"one long argument", driver.Spec{Argv: []string{"true", strings.Repeat("x", maxString)}}, driver.ErrArgument, "stdin or in a file"},
		{"one long variable", driver.Spec{Argv: []string{"true"}, Env: driver.Env{"A": strings.Repeat("x", maxString-2)}}, driver.ErrArgument, "variable A"},
		{"too much together", driver.Spec{Argv: append([]string{"true"}, slices.Repeat([]string{strings.Repeat("x", maxString-1)}, 60)...)}, driver.ErrArgument, "together"},
		{"name of a variable", driver.Spec{Argv: []string{"true"}, Env: driver.Env{"A=B": "x"}}, driver.ErrArgument, "name of a variable"},
		{"id", driver.Spec{Argv: []string{"true"}, ID: "../up"}, driver.ErrArgument, "file name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bothKinds(t, func(t *testing.T, at *keeperAt) {
				spec := c.spec
				if spec.ID == "" {
					spec.ID = prog(t, "").ID
				}
				p, err := Start(ctxOf(t), at.dial(), &spec, newSink(), nil)
				if err == nil {
					wait(t, p)
					t.Fatal("it was started")
				}
				if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.text) {
					t.Errorf("%v, want one that is %q and says %q", err, c.is, c.text)
				}
				if strings.Contains(err.Error(), "xxxxxxxx") {
					t.Error("the error holds an argument or a value")
				}
				at.left(at.gone)
				if es, _ := os.ReadDir(at.root); len(es) > 0 {
					t.Errorf("the spool has %v", es)
				}
				if ps, _ := proctree.Marked(spec.ID); len(ps) > 0 {
					t.Errorf("there are %+v", ps)
				}
				if es, _ := filepath.Glob("/sys/fs/cgroup/*/rein-" + spec.ID + "*"); len(es) > 0 {
					t.Errorf("there is %v", es)
				}
			})
		})
	}
}

// The longest argument that the kernel takes is taken.
func TestLongestArgument(t *testing.T) {
	bothKinds(t, func(t *testing.T, at *keeperAt) {
		long := strings.Repeat("x", maxString-1)
		e, out := at.run(prog(t, "print", long, ""))
		if code(e) != "exited code 0" || out.String(driver.Stdout) != long {
			t.Errorf("%+v, %d bytes", e, len(out.String(driver.Stdout)))
		}
	})
}

// An earlier transcript is never written over.
func TestSpoolIsNotReused(t *testing.T) {
	root := t.TempDir()
	at := newKeeperAt(t, place{process: true, spool: true})
	at.root = root
	spec := prog(t, "exit", "0")
	dir := filepath.Join(root, spec.ID)
	os.Mkdir(dir, 0o700)
	os.WriteFile(filepath.Join(dir, stdoutFile), []byte("precious"), 0o600)
	if _, err := Start(ctxOf(t), at.dial(), spec, newSink(), nil); err == nil || !strings.Contains(err.Error(), "id of its own") {
		t.Errorf("Start: %v", err)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, stdoutFile)); string(b) != "precious" {
		t.Errorf("the transcript is now %q", b)
	}
	// A symbolic link is not followed, wherever it leads.
	os.Remove(filepath.Join(dir, stdoutFile))
	target := filepath.Join(t.TempDir(), "target")
	os.Symlink(target, filepath.Join(dir, stdoutFile))
	if _, err := Start(ctxOf(t), at.dial(), spec, newSink(), nil); err == nil {
		t.Error("a symbolic link was taken for a transcript")
	}
	if _, err := os.Lstat(target); err == nil {
		t.Error("it was followed")
	}
}

func TestLook(t *testing.T) {
	bothKinds(t, func(t *testing.T, at *keeperAt) {
		p, err := Look(ctxOf(t), at.dial(), "", nil)
		if err != nil || p.OS != "linux" || p.UID != os.Getuid() || p.Path == "" || p.Exe != "" {
			t.Errorf("Look: %+v, %v", p, err)
		}
		dir := t.TempDir()
		exe := filepath.Join(dir, "tool")
		os.WriteFile(exe, []byte("#!/bin/true\n"), 0o755)
		p, err = Look(ctxOf(t), at.dial(), "tool", driver.Env{"PATH": dir})
		if err != nil || p.Exe != exe || p.Size != 12 || p.ModTime.IsZero() {
			t.Errorf("Look(tool): %+v, %v", p, err)
		}
		var nf *driver.NotFoundError
		if _, err = Look(ctxOf(t), at.dial(), "tool", driver.Env{"PATH": "/nowhere"}); !errors.As(err, &nf) || nf.Path != "/nowhere" {
			t.Errorf("Look(tool) in nowhere: %v", err)
		}
	})
}

func TestPasswdHome(t *testing.T) {
	const file = "root:x:0:0:root:/root:/bin/sh\nbad line\nme:x:1000:1000::/home/me:/bin/sh"
	for uid, want := range map[int]string{0: "/root", 1000: "/home/me", 1: ""} {
		if got := passwdHome(file, uid); got != want {
			t.Errorf("home of %d: %q, want %q", uid, got, want)
		}
	}
}
