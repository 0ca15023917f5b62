package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rein-run/rein/watch"
)

// A project is at most as loose as the user's file, and as the bounds where
// that is silent. No want: the project's value holds.
func TestProjectWithinBounds(t *testing.T) {
	for _, x := range []struct{ user, project, want string }{
		{"", "grace: 10h", "grace: a project, whose file came with a clone, may say 30s at most: put grace: 10h into USER"},
		{"", "grace: 30s", ""},
		{"", "grace: 30.000000001s", "may say 30s at most"},
		{"", "grace: none", "cannot switch a limit off: put grace: none into USER"},
		{"", "total: 10000h", "total: a project, whose file came with a clone, may say 2h at most: put total: 10000h into USER"},
		{"", "total: 2h", ""},
		{"", "total: 2h0m0.000000001s", "may say 2h at most"},
		{"", "total: 2562047h", "may say 2h at most"},
		{"", "startup: 3h", "may say 2h"},
		{"", "idle: 3h", "may say 2h"},
		{"", "tool: 3h", "may say 2h"},
		{"", "stall: 3h", "may say 2h"},
		{"", "completion: 3h", "may say 2h"},
		{"", "total: 1s", ""},
		{"", "total: 1m\ntotal: 10h", `"total" is there twice`},
		{"total: 20m", "total: 30m", "may not exceed the 20m of USER:1:1: put total: 30m there"},
		{"total: 20m", "total: 20m", ""},
		{"total: 20m", "total: none", "cannot switch"},
		{"total: 10h", "total: 8h", ""},
		{"total: 10h", "total: 11h", "may not exceed the 10h"},
		{"total: 10h", "idle: 3h", "may say 2h"},
		{"idle: none", "idle: 8h", ""},
		{"idle: none", "idle: none", ""},
		{"idle: none", "total: none", "total: a project"},
		{"grace: 1m", "grace: 45s", ""},
		{"grace: 2s", "grace: 3s", "may not exceed the 2s"},
		{"grace: none", "grace: 1ns", "may not exceed the none of USER"}, // SIGKILL at once
		{"grace: none", "grace: none", ""},
		{"", "max_memory: 4GiB\nmax_procs: 9\nmax_output: 1TB", ""},
		{"max_memory: 2GiB", "max_memory: 4GiB", "may not exceed the 2GiB of USER:1:1: put max_memory: 4GiB there"},
		{"max_memory: 2GiB", "max_memory: 2147483649B", "may not exceed"},
		{"max_memory: 2GiB", "max_memory: 1GiB", ""},
		{"max_memory: 2GiB", "max_memory: none", "cannot switch"},
		{"max_memory: none", "max_memory: 4GiB", ""},
		{"max_memory: none", "max_memory: none", ""},
		{"max_procs: 200", "max_procs: 201", "may not exceed the 200 of USER:1:1: put max_procs: 201 there"},
		{"max_procs: 200", "max_procs: none", "cannot switch"},
		{"max_procs: 200", "max_procs: 200", ""},
		{"max_output: 1MB", "max_output: 1MiB", "may not exceed the 1MB"},
		{"", "max_tokens: 5M", ""},
		{"", "sandbox: true", ""},
		{"", "sandbox: false", "sandbox: a project can switch it on, not off: remove this line"},
		{"sandbox: true", "sandbox: false", "not off"},
		{"", "sandbox: yes", "sandbox is true or false"},
		{"max_tokens: 200k", "max_tokens: 201k", "may not exceed the 200k of USER:1:1: put max_tokens: 201k there"},
		{"max_tokens: 200k", "max_tokens: none", "cannot switch"},
		{"max_cost: 2.5", "max_cost: 2.51", "may not exceed the 2.5 of USER:1:1: put max_cost: 2.51 there"},
		{"max_cost: 2.5", "max_cost: 0.5", ""},
		{"max_subagents: 3", "max_subagents: 4", "may not exceed the 3"},
		{"", "prices: {claude-opus-5: {input: 0.001, output: 0.001}}", "prices cannot be set by a project"},
	} {
		t.Run(x.user+"|"+x.project, func(t *testing.T) {
			p := newYard(t)
			if x.user != "" {
				p.user(x.user)
			}
			p.project("\n" + x.project)
			c, err := p.load()
			if x.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				name, value, _ := strings.Cut(strings.Split(x.project, "\n")[0], ": ")
				if k := findKey(name); k.get(c) != value || c.Origin(name).Source != Project {
					t.Errorf("%s is %s from %v", name, k.get(c), c.Origin(name))
				}
				return
			}
			var e *Error
			want := strings.ReplaceAll(x.want, "USER", p.userFile())
			if !errors.As(err, &e) || !strings.Contains(err.Error(), want) {
				t.Fatalf("got  %v\nwant %s", err, want)
			}
			if e.Origin.Name != p.projectFile() || e.Origin.Line < 2 || e.Origin.Column != 1 {
				t.Errorf("place: %v", e.Origin)
			}
		})
	}
}

// What is refused is not set either.
func TestRefusedIsNotSet(t *testing.T) {
	c := &Config{}
	for _, from := range []Source{User, Project, Project} {
		value := map[Source]string{User: "5m", Project: "1h"}[from]
		err := c.Set(watch.Total, value, Origin{Source: from, Name: "f", Line: 1, Column: 1})
		if (err != nil) != (from == Project) {
			t.Errorf("%v", err)
		}
	}
	if c.Clocks().Total != 5*time.Minute || c.Origin(watch.Total).Source != User {
		t.Errorf("total %v from %v", c.Clocks().Total, c.Origin(watch.Total))
	}
}

// The bounds are for the project: variables and flags are the user's.
func TestUserIsNotBounded(t *testing.T) {
	p := newYard(t)
	p.user("total: 10000h\ngrace: 10h")
	p.project("total: 1h")
	p.vars["REIN_TOTAL"] = "20h"
	c := p.mustLoad()
	if err := c.Set(watch.Grace, "11h", Origin{Source: Flag, Name: "--grace"}); err != nil {
		t.Fatal(err)
	}
	if k := c.Clocks(); k.Total != 20*time.Hour || k.Grace != 11*time.Hour {
		t.Errorf("%+v", k)
	}
}

func TestByteOrderMark(t *testing.T) {
	p := newYard(t)
	p.user("\ufeffmodel: a\n")
	p.project("\ufeffagent: claude")
	if c := p.mustLoad(); c.Model != "a" || c.Agent != "claude" {
		t.Errorf("%+v", c)
	}
	p.project("\ufeff")
	p.mustLoad()
	p.project("\ufefftotal: 10h") // no way around the bounds
	if _, err := p.load(); err == nil || !strings.HasPrefix(err.Error(), p.projectFile()+":1:1: ") {
		t.Errorf("%v", err)
	}
}

func TestMisnamedProjectFile(t *testing.T) {
	for _, name := range misnamedProject {
		p := newYard(t)
		wrong := filepath.Join(p.repo, name)
		p.write(wrong, "total: 1m")
		refused := func(why string) {
			t.Helper()
			var e *Error
			if _, err := p.load(); !errors.As(err, &e) || e.Origin.Name != wrong || !strings.Contains(err.Error(), "rename it to rein.yaml") {
				t.Errorf("%s, %s: %v", name, why, err)
			}
		}
		refused("alone")
		p.project("total: 2m")
		refused("beside the right one")
		p.write(filepath.Join(p.sub, ProjectFile), "total: 3m")
		if c := p.mustLoad(); c.Clocks().Total != 3*time.Minute {
			t.Error("above the nearest, where the right name would not be read either")
		}
		if err := os.Rename(wrong, filepath.Join(p.home, name)); err != nil {
			t.Fatal(err)
		}
		p.mustLoad() // above the repository
	}
}

func TestMisnamedUserFile(t *testing.T) {
	for _, name := range misnamedUser {
		p := newYard(t)
		wrong := filepath.Join(filepath.Dir(p.userFile()), name)
		p.write(wrong, "total: 1m")
		for _, beside := range []bool{false, true} {
			if beside {
				p.user("total: 2m")
			}
			var e *Error
			if _, err := p.load(); !errors.As(err, &e) || e.Origin.Name != wrong || !strings.Contains(err.Error(), "rename it to config.yaml") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestNoProject(t *testing.T) {
	p := newYard(t)
	p.user("state_dir: /s\ntotal: 20m")
	p.project("totl: this is no configuration")
	c, err := Load(p.sub, p.env, &Options{NoProject: true})
	if err != nil || c.StateDir != "/s" {
		t.Errorf("%+v, %v", c, err)
	}
}

// A dash is stdin or stdout in other commands, and never a file here.
func TestDashIsNoFile(t *testing.T) {
	p := newYard(t)
	for _, key := range []string{"report", "env_file", "state_dir"} {
		p.user(key + ": '-'")
		if _, err := p.load(); err == nil || !strings.Contains(err.Error(), key+": - is not a file") {
			t.Errorf("%s: %v", key, err)
		}
	}
	p.user("report: ./-")
	if c := p.mustLoad(); filepath.Base(c.Report) != "-" {
		t.Errorf("report %q", c.Report)
	}
}

func TestValidate(t *testing.T) {
	p := newYard(t)
	for _, x := range []struct{ user, project, variable, want string }{
		{"", "", "", ""},
		{"idle: 20m", "total: 10m", "", ""}, // cut down
		{"idle: 40m", "", "", "USER:1:1: idle 40m: longer than total 30m, so it could never run out; lower it, or raise total (total: default)"},
		{"total: 10m", "idle: 15m", "", ""},
		{"total: 10m", "", "20m", ""},
		{"model: x", "total: 10m\ntool: 20m", "", "PROJECT:2:1: tool 20m: longer than total 10m, so it could never run out; lower it, or raise total (total: PROJECT:1:1)"},
		{"total: 10m\nstall: 11m", "", "", "USER:2:1: stall 11m: longer than total 10m"},
	} {
		p.user(x.user)
		p.project(x.project)
		p.vars["REIN_IDLE"] = x.variable
		err := p.mustLoad().Validate()
		if x.want == "" {
			if err != nil {
				t.Errorf("%+v: %v", x, err)
			}
			continue
		}
		want := strings.NewReplacer("USER", p.userFile(), "PROJECT", p.projectFile()).Replace(x.want)
		var e *Error
		if !errors.Is(err, watch.ErrClock) || !errors.As(err, &e) || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "--") {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// What the user typed is not bent: with flags alone, and against a file.
func TestValidateFlags(t *testing.T) {
	for _, x := range []struct {
		user  string
		flags map[string]string
		ok    bool
	}{
		{"", map[string]string{"total": "10m", "idle": "20m"}, false},
		{"", map[string]string{"idle": "40m"}, false},
		{"total: 10m", map[string]string{"idle": "20m"}, false},
		{"idle: 20m", map[string]string{"total": "10m"}, true},
	} {
		p := newYard(t)
		p.user(x.user)
		c := p.mustLoad()
		for k, v := range x.flags {
			if err := c.Set(k, v, Origin{Source: Flag, Name: "--" + k}); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Validate(); (err == nil) != x.ok {
			t.Errorf("%+v: %v", x, err)
		}
	}
}
