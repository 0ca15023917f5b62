package hosttest

import (
	"context"
	"errors"
	"path"
	"strings"
	"time"

	"github.com/rein-run/rein/host/driver"
)

// startCases: what is started is what was asked for, where the command runs;
// and what cannot be started leaves nothing.
func startCases() []testCase {
	return []testCase{
		{"Start/ArgvVerbatim", argvVerbatim},
		{"Start/ArgvOddBytes", argvOddBytes},
		{"Start/LongArguments", longArguments},
		{"Start/EnvLayered", envLayered},
		{"Start/EnvVerbatim", envVerbatim},
		{"Start/UnsetIsAbsent", unsetIsAbsent},
		{"Start/UnsetBeatsEnv", unsetBeatsEnv},
		{"Start/Marker", marker},
		{"Start/Dir", dirCase},
		{"Start/NameOnOwnPath", nameOnOwnPath},
		{"Start/NameOnGivenPath", nameOnGivenPath},
		{"Start/NotFound", notFound},
		{"Start/NotExecutable", notExecutable},
		{"Start/NoDir", noDir},
		{"Start/EmptyArgv", emptyArgv},
		{"Start/RefusalKeepsSecrets", refusalKeepsSecrets},
		{"Start/CancelledLeavesNothing", cancelledLeavesNothing},
		{"Start/ContextIsNotTheOwner", contextIsNotTheOwner},
		{"Start/Look", look},
	}
}

// hazards are arguments that a shell, a join or a careless quoter changes.
var hazards = []string{
	"", " ", "two words", "  both ends  ", "new\nline", "tab\t", "carriage\rreturn",
	`"`, `'`, `\`, `\\"'`, `it's "quoted"`, "`id`", "$(id)", "${HOME}", "$HOME", "$$", "!!",
	"*", "?", "[a-z]*", "{a,b}", "~", "~root", "a;b", "a&b", "a|b", "a>b", "<", "#x", "%s%n", "-n", "--", "-", "-rf", "=", "a=b",
	"ünïcödé 漢字 🙂", "\u2028", "\ufffd", "\x01\x7f", "end\\", "",
}

func argvVerbatim(k *kit) {
	e, out := k.run(k.spec(append([]string{"args"}, hazards...)...))
	k.wantExited(e, 0)
	k.sameArgs(out.text(driver.Stdout), hazards)
}

func argvOddBytes(k *kit) {
	k.declared(k.h.NoOddBytes)
	odd := []string{"\xff", "a\xc3(b", string(everyByte()[1:256])}
	e, out := k.run(k.spec(append([]string{"args"}, odd...)...))
	k.wantExited(e, 0)
	k.sameArgs(out.text(driver.Stdout), odd)
}

func (k *kit) sameArgs(got string, want []string) {
	k.Helper()
	if got == strings.Join(want, "\x00")+"\x00" {
		return
	}
	args := strings.Split(got, "\x00")
	for i, w := range want {
		if i >= len(args) || args[i] != w {
			k.Errorf("argument %d did not arrive as it was: %q; got %q", i, short(w), short(strings.Join(args[min(i, len(args)):], "|")))
			return
		}
	}
	k.Errorf("got %d arguments, want %d", len(args)-1, len(want))
}

// Linux takes an argument of 131,071 bytes and no longer one
// (MAX_ARG_STRLEN, execve(2)). An error that says so beats a cut argument.
func longArguments(k *kit) {
	long := strings.Repeat("a", 131071)
	e, out := k.run(k.spec("args", long))
	k.wantExited(e, 0)
	k.sameArgs(out.text(driver.Stdout), []string{long})

	spec := k.spec("args", long+"a")
	err := k.refused(spec)
	if errors.Is(err, driver.ErrNotFound) {
		k.Errorf("an argument that is too long is refused as a program that is not found: %v", err)
	}
	spec = k.spec("args", "nul\x00byte")
	k.refused(spec)
	k.none(spec.ID, "after a refusal")
}

func envLayered(k *kit) {
	spec := k.spec("env=HOSTTEST_GIVEN", "names")
	spec.Env = driver.Env{"HOSTTEST_GIVEN": "yes"}
	e, out := k.run(spec)
	k.wantExited(e, 0)
	names := strings.Split(out.text(driver.Stdout), "\n")
	if names[0] != "HOSTTEST_GIVEN=yes" {
		k.Errorf("the variable that was given arrived as %q", names[0])
	}
	for _, n := range names {
		if n == "PATH" {
			return
		}
	}
	k.Errorf("the environment's own variables are gone: no PATH among %q", names)
}

func envVerbatim(k *kit) {
	values := []string{"", " ", "false", "nil", "0", "a=b", "new\nline", `'"\`, "$HOME $(id)", "ünï", strings.Repeat("v", 100000)}
	if k.h.NoOddBytes == "" {
		values = append(values, "\xff\xfe")
	}
	spec := k.spec()
	spec.Env = driver.Env{}
	var want strings.Builder
	for i, v := range values {
		name := "HOSTTEST_" + string(rune('A'+i))
		spec.Env[name] = v
		spec.Argv = append(spec.Argv, "env="+name)
		want.WriteString(name + "=" + v + "\n")
	}
	e, out := k.run(spec)
	k.wantExited(e, 0)
	if got := out.text(driver.Stdout); got != want.String() {
		k.Errorf("values did not arrive as they were:\n got %q\nwant %q", short(got), short(want.String()))
	}
}

// HOME is in every environment's own variables. "" and "false" set it; only
// absence is unset (seed 000, contract rule E5).
func unsetIsAbsent(k *kit) {
	spec := k.spec("env=HOME", "env=HOSTTEST_NEVER")
	spec.Unset = []string{"HOME", "HOSTTEST_NEVER"}
	e, out := k.run(spec)
	k.wantExited(e, 0)
	if got, want := out.text(driver.Stdout), "HOME is unset\nHOSTTEST_NEVER is unset\n"; got != want {
		k.Errorf("unset variables: got %q, want %q", got, want)
	}
}

func unsetBeatsEnv(k *kit) {
	spec := k.spec("env=HOSTTEST_BOTH")
	spec.Env = driver.Env{"HOSTTEST_BOTH": "1"}
	spec.Unset = []string{"HOSTTEST_BOTH"}
	e, out := k.run(spec)
	k.wantExited(e, 0)
	if got, want := out.text(driver.Stdout), "HOSTTEST_BOTH is unset\n"; got != want {
		k.Errorf("a variable given and unset: got %q, want %q", got, want)
	}
}

// The marker is a path: inside another run its last part is this command's ID,
// behind which a host may put '@' and a word of its own.
func marker(k *kit) {
	spec := k.spec("env=REIN_RUN")
	e, out := k.run(spec)
	k.wantExited(e, 0)
	got := strings.TrimSpace(out.text(driver.Stdout))
	if v, ok := strings.CutPrefix(got, "REIN_RUN="); !ok || !marks(v, spec.ID) {
		k.Errorf("marker: got %q, want it to end with %q", got, spec.ID)
	}
}

func marks(v, id string) bool {
	last, _, _ := strings.Cut(path.Base(v), "@")
	return last == id
}

func dirCase(k *kit) {
	e, out := k.run(k.spec("pwd"))
	k.wantExited(e, 0)
	if got := out.text(driver.Stdout); got != k.h.Dir {
		k.Errorf("the command ran in %q, want %q", got, k.h.Dir)
	}
	spec := k.spec("pwd")
	spec.Dir = ""
	e, out = k.run(spec)
	k.wantExited(e, 0)
	if got := out.text(driver.Stdout); !strings.HasPrefix(got, "/") {
		k.Errorf("the default directory is %q, want an absolute path", got)
	}
}

func nameOnOwnPath(k *kit) {
	k.declared(k.h.NoName)
	spec := k.spec("out=found")
	spec.Argv[0] = k.h.Name
	e, out := k.run(spec)
	k.wantExited(e, 0)
	if got := out.text(driver.Stdout); got != "found" {
		k.Errorf("stdout %q", got)
	}
}

// A PATH that is given is searched where the command runs; the PATH of the
// caller's machine is never looked at.
func nameOnGivenPath(k *kit) {
	spec := k.spec("out=found")
	spec.Argv[0] = path.Base(k.h.Prog)
	spec.Env = driver.Env{"PATH": "/no/such/place:" + path.Dir(k.h.Prog)}
	e, out := k.run(spec)
	k.wantExited(e, 0)
	if got := out.text(driver.Stdout); got != "found" {
		k.Errorf("stdout %q", got)
	}

	spec = k.spec("out=found")
	spec.Argv[0] = path.Base(k.h.Prog)
	spec.Env = driver.Env{"PATH": "/no/such/place"}
	k.notFound(spec, spec.Argv[0], "/no/such/place")
}

func (k *kit) notFound(spec *driver.Spec, name, searched string) {
	k.Helper()
	err := k.refused(spec)
	var nf *driver.NotFoundError
	if !errors.Is(err, driver.ErrNotFound) || !errors.As(err, &nf) {
		k.Errorf("%s: error %v (%T), want a *driver.NotFoundError", name, err, err)
		return
	}
	if nf.Name != name {
		k.Errorf("the error names %q, want %q", nf.Name, name)
	}
	if !strings.Contains(nf.Path, searched) {
		k.Errorf("%s: searched PATH is given as %q, want %q in it", name, nf.Path, searched)
	}
	k.none(spec.ID, "after a refusal")
}

func notFound(k *kit) {
	spec := k.spec("out=x")
	spec.Argv[0] = "no-such-program-anywhere"
	k.notFound(spec, spec.Argv[0], "/")
	spec = k.spec("out=x")
	spec.Argv[0] = "/no/such/program"
	k.notFound(spec, spec.Argv[0], "")
	// The host is as good as before.
	e, _ := k.run(k.spec("exit=0"))
	k.wantExited(e, 0)
}

func notExecutable(k *kit) {
	plain, dir := path.Join(k.h.Dir, "plain"), k.h.Dir
	e, _ := k.run(k.spec("file=" + plain + ",644,#!/bin/false\n"))
	k.wantExited(e, 0)
	for _, name := range []string{plain, dir} {
		spec := k.spec("out=x")
		spec.Argv[0] = name
		k.notFound(spec, name, "")
	}
	// Executable by its mode but not by its content: some error, at once, and
	// never an exit code that a program could have given.
	bad := path.Join(k.h.Dir, "bad")
	e, _ = k.run(k.spec("file=" + bad + ",755,\x7fELFnot\n"))
	k.wantExited(e, 0)
	spec := k.spec("out=x")
	spec.Argv[0] = bad
	k.refused(spec)
}

func noDir(k *kit) {
	for _, dir := range []string{"/no/such/directory", k.h.Prog} {
		spec := k.spec("out=x")
		spec.Dir = dir
		if err := k.refused(spec); !errors.Is(err, driver.ErrNoDir) {
			k.Errorf("directory %s: error %v, want ErrNoDir", dir, err)
		}
		k.none(spec.ID, "after a refusal")
	}
}

func emptyArgv(k *kit) {
	spec := k.spec()
	spec.Argv = nil
	k.refused(spec)
	spec = k.spec()
	spec.Argv = []string{""}
	k.refused(spec)
}

// Law 10: what is in argv and in variables is a credential until proved
// otherwise, and errors end up in logs.
func refusalKeepsSecrets(k *kit) {
	const secret = "s3cr3t-do-not-tell"
	breakers := []func(*driver.Spec){
		func(s *driver.Spec) { s.Argv[0] = "no-such-program-anywhere" },
		func(s *driver.Spec) { s.Argv[0] = "/no/such/program" },
		func(s *driver.Spec) { s.Dir = "/no/such/directory" },
		func(s *driver.Spec) { s.Argv = append(s.Argv, strings.Repeat(secret, 10000)) },
		func(s *driver.Spec) { s.Env["HOSTTEST_BIG"] = strings.Repeat(secret, 10000) },
		func(s *driver.Spec) { s.Argv = append(s.Argv, secret+"\x00") },
	}
	for i, breakIt := range breakers {
		spec := k.spec("args", secret)
		spec.Env = driver.Env{"HOSTTEST_KEY": secret}
		breakIt(spec)
		err := k.refused(spec)
		for e := err; e != nil; e = errors.Unwrap(e) {
			if strings.Contains(e.Error(), secret) {
				k.Errorf("refusal %d tells the secret: %s", i, short(e.Error()))
				break
			}
		}
	}
}

// Whatever the moment at which the caller gives up: an error and nothing there,
// or a process.
func cancelledLeavesNothing(k *kit) {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	spec := k.spec("wait")
	if p, err := k.d.Start(gone, spec, newSink()); err == nil {
		p.Kill(context.Background())
		k.Error("Start with a context that is over returned a process")
	}
	k.gone(spec.ID, "after a Start that was cancelled before it began")

	for i := range 8 {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(time.Duration(i*i)*200*time.Microsecond, cancel)
		spec := k.spec("wait")
		out := newSink()
		p, err := k.d.Start(ctx, spec, out)
		if err == nil {
			r := &running{k: k, Process: p, spec: spec, out: out}
			r.kill()
			k.wantKilled(r.end())
		}
		cancel()
		k.gone(spec.ID, "after a Start that was cancelled halfway")
	}
}

// The context of a driver's Start bounds the call, not the process.
func contextIsNotTheOwner(k *kit) {
	ctx, cancel := context.WithCancel(context.Background())
	spec := k.spec("out=up", "cat", "exit=5")
	spec.Duplex = true
	out := newSink()
	p, err := k.d.Start(ctx, spec, out)
	cancel()
	if err != nil {
		k.Fatalf("Start: %v", err)
	}
	r := &running{k: k, Process: p, spec: spec, out: out}
	k.Cleanup(r.cleanup)
	r.says("up")
	r.closeStdin()
	k.wantExited(r.end(), 5)
}

func look(k *kit) {
	k.declared(k.h.NoLook)
	l, ok := k.d.(driver.Looker)
	if !ok {
		k.Fatal("the host is no driver.Looker, and Harness.NoLook gives no reason")
	}
	ctx, cancel := context.WithTimeout(context.Background(), k.h.patience())
	defer cancel()
	place, err := l.Look(ctx, k.h.Prog, nil)
	if err != nil {
		k.Fatalf("Look: %v", err)
	}
	if place.Exe != k.h.Prog || place.Size <= 0 || place.ModTime.IsZero() {
		k.Errorf("Look(%s) = %+v, want Exe, Size and ModTime of it", k.h.Prog, place)
	}
	if place.OS == "" || place.Arch == "" || place.Path == "" {
		k.Errorf("Look = %+v, want OS, Arch and Path", place)
	}
	// What Look says and what a command finds must be one thing.
	e, out := k.run(k.spec("env=HOME", "env=PATH"))
	k.wantExited(e, 0)
	if got, want := out.text(driver.Stdout), "HOME="+place.Home+"\nPATH="+place.Path+"\n"; got != want {
		k.Errorf("a command finds %q, Look says %q", got, want)
	}
	byName, err := l.Look(ctx, path.Base(k.h.Prog), driver.Env{"PATH": path.Dir(k.h.Prog)})
	if err != nil || byName.Exe != k.h.Prog {
		k.Errorf("Look by name on a given PATH = %+v, %v; want %s", byName, err, k.h.Prog)
	}
	if _, err := l.Look(ctx, "no-such-program-anywhere", nil); !errors.Is(err, driver.ErrNotFound) {
		k.Errorf("Look for what is not there: %v, want ErrNotFound", err)
	}
	if place, err := l.Look(ctx, "", nil); err != nil || place.Exe != "" {
		k.Errorf("Look without a name = %+v, %v", place, err)
	}
}
