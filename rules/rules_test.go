package rules

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rein-run/rein/store"
)

const project = "\n\n# Project\n\nUse tabs.\n"

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func place(t *testing.T, dir, file, text string, o *Options) *Placed {
	t.Helper()
	p, err := Place(dir, file, text, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func restore(t *testing.T, p *Placed) {
	t.Helper()
	for range 2 { // it may be called again
		if err := p.Restore(); err != nil {
			t.Fatal(err)
		}
	}
}

// alone: nothing is in the directory but the names.
func alone(t *testing.T, dir string, names ...string) {
	t.Helper()
	var got []string
	filepath.WalkDir(dir, func(p string, _ fs.DirEntry, _ error) error {
		if p != dir {
			rel, _ := filepath.Rel(dir, p)
			got = append(got, filepath.ToSlash(rel))
		}
		return nil
	})
	if strings.Join(got, " ") != strings.Join(names, " ") {
		t.Errorf("there are %q, want %q", got, names)
	}
}

func TestNewFile(t *testing.T) {
	for _, file := range []string{"AGENTS.md", ".cursor/rules/rein.mdc"} {
		dir := t.TempDir()
		p := place(t, dir, file, "Be brief.", nil)
		name := filepath.Join(dir, filepath.FromSlash(file))
		got := get(t, name)
		if !strings.Contains(got, "\nBe brief.\n") || strings.HasSuffix(file, ".mdc") != strings.HasPrefix(got, "---\nalwaysApply: true\n---\n") {
			t.Errorf("%q", got)
		}
		restore(t, p)
		alone(t, dir)
	}
}

func TestProjectsOwnFileIsAsItWas(t *testing.T) {
	for _, file := range []string{"AGENTS.md", "x.mdc"} {
		for _, before := range []string{project, "", "no newline at the end", "\ufeffBOM\r\n", "\n"} {
			dir := t.TempDir()
			name := filepath.Join(dir, file)
			put(t, name, before)
			os.Chmod(name, 0o640)
			was, _ := os.Stat(name)
			p := place(t, dir, file, "Be brief.\n", nil)
			if got := get(t, name); !strings.Contains(got, "Be brief.\n") || !strings.Contains(got, before) {
				t.Errorf("%q", got)
			}
			restore(t, p)
			now, _ := os.Stat(name)
			if get(t, name) != before || now.Mode() != was.Mode() || !now.ModTime().Equal(was.ModTime()) {
				t.Errorf("%q: now %q, %v, %v", before, get(t, name), now.Mode(), now.ModTime())
			}
			alone(t, dir, file)
		}
	}
}

// The bugs of the house that this one wants to beat, by their numbers in its
// description.
func TestRuleBugs(t *testing.T) {
	t.Run("1 rules with a separator in them", func(t *testing.T) {
		dir := t.TempDir()
		name := filepath.Join(dir, "AGENTS.md")
		put(t, name, project)
		rules := "A\n\n---\n\nB\n<!-- end of the rules of one run: X -->\n<!-- harness -->\n"
		p := place(t, dir, "AGENTS.md", rules, nil)
		if !strings.Contains(get(t, name), rules) {
			t.Error("the rules are not there as they are")
		}
		put(t, name, get(t, name)+"agent\n") // the way by the marks
		restore(t, p)
		if got := get(t, name); got != project+"agent\n" {
			t.Errorf("%q", got)
		}
	})
	t.Run("2 blank lines and an empty file", func(t *testing.T) {
		dir := t.TempDir()
		put(t, filepath.Join(dir, "AGENTS.md"), "")
		p := place(t, dir, "AGENTS.md", "R", nil)
		restore(t, p)
		if get(t, filepath.Join(dir, "AGENTS.md")) != "" {
			t.Error("an empty file is a file")
		}
	})
	t.Run("3 the second run gets its own rules", func(t *testing.T) {
		dir := t.TempDir()
		name := filepath.Join(dir, "AGENTS.md")
		place(t, dir, "AGENTS.md", "old", nil) // and died, its journal lost
		left := get(t, name)
		p := place(t, dir, "AGENTS.md", "new", nil)
		if got := get(t, name); !strings.Contains(got, "\nnew\n") || strings.Index(got, "\nnew\n") > strings.Index(got, "\nold\n") {
			t.Errorf("%q", got)
		}
		restore(t, p)
		if get(t, name) != left {
			t.Error("what was there is changed")
		}
	})
	t.Run("4 no symlink is followed", func(t *testing.T) {
		outside := t.TempDir()
		put(t, filepath.Join(outside, "CLAUDE.md"), project)
		for _, c := range []struct{ link, to, file string }{
			{"AGENTS.md", "CLAUDE.md", "AGENTS.md"},
			{"AGENTS.md", filepath.Join(outside, "CLAUDE.md"), "AGENTS.md"},
			{"AGENTS.md", "nowhere", "AGENTS.md"},
			{".cursor", outside, ".cursor/rules/x.mdc"},
		} {
			dir := t.TempDir()
			put(t, filepath.Join(dir, "CLAUDE.md"), project)
			if err := os.Symlink(c.to, filepath.Join(dir, c.link)); err != nil {
				t.Fatal(err)
			}
			if _, err := Place(dir, c.file, "R", nil); !errors.Is(err, ErrLink) {
				t.Errorf("%s: %v", c.to, err)
			}
			alone(t, dir, c.link, "CLAUDE.md")
			alone(t, outside, "CLAUDE.md")
			if get(t, filepath.Join(outside, "CLAUDE.md")) != project || get(t, filepath.Join(dir, "CLAUDE.md")) != project {
				t.Error("written through")
			}
		}
	})
	t.Run("5 what the agent wrote stays", func(t *testing.T) {
		for _, before := range []string{"", project} {
			dir := t.TempDir()
			name := filepath.Join(dir, "rules", "x.mdc")
			want := before + "agent\n"
			if before != "" {
				put(t, name, before)
			}
			p := place(t, dir, "rules/x.mdc", "R", nil)
			put(t, name, get(t, name)+"agent\n")
			os.Chmod(name, 0o755)
			restore(t, p)
			if st, _ := os.Stat(name); get(t, name) != want || st.Mode().Perm() != 0o755 {
				t.Errorf("%q, %v", get(t, name), st.Mode())
			}
		}
	})
	t.Run("6 inside the block and above it", func(t *testing.T) {
		dir := t.TempDir()
		name := filepath.Join(dir, "AGENTS.md")
		put(t, name, project)
		p := place(t, dir, "AGENTS.md", "one\ntwo\nthree\n", nil)
		put(t, name, "above\n"+strings.Replace(get(t, name), "two\n", "agent\ntwo\n", 1))
		restore(t, p)
		if got := get(t, name); got != "above\nagent\n"+project {
			t.Errorf("%q", got)
		}
	})
	t.Run("7 no rules place nothing", func(t *testing.T) {
		dir := t.TempDir()
		p, err := Place(dir, "AGENTS.md", "", nil)
		if p != nil || err != nil {
			t.Error(p, err)
		}
		restore(t, p)
		alone(t, dir)
	})
	t.Run("8 the same rules again", func(t *testing.T) {
		dir := t.TempDir()
		for range 2 {
			p := place(t, dir, "AGENTS.md", "R", nil)
			alone(t, dir, "AGENTS.md")
			restore(t, p)
			alone(t, dir)
		}
	})
	t.Run("9 two runs in one repository", func(t *testing.T) {
		// In one directory they are refused by the lease of the run (package
		// rein); in two they share info/exclude.
		common := t.TempDir()
		exclude := filepath.Join(common, "info", "exclude")
		put(t, exclude, "*.log")
		os.Chmod(exclude, 0o600)
		one, two := t.TempDir(), t.TempDir()
		p := place(t, one, "AGENTS.md", "R", &Options{Exclude: exclude, Top: one})
		q := place(t, two, "AGENTS.md", "R", &Options{Exclude: exclude, Top: two})
		if n := strings.Count(get(t, exclude), "\n/AGENTS.md\n"); n != 2 {
			t.Errorf("%q", get(t, exclude))
		}
		restore(t, p)
		if n := strings.Count(get(t, exclude), "\n/AGENTS.md\n"); n != 1 {
			t.Errorf("%q", get(t, exclude))
		}
		restore(t, q)
		if st, _ := os.Stat(exclude); get(t, exclude) != "*.log" || st.Mode().Perm() != 0o600 {
			t.Errorf("%q", get(t, exclude))
		}
	})
	t.Run("10 more than the CLI reads", func(t *testing.T) {
		dir := t.TempDir()
		put(t, filepath.Join(dir, "AGENTS.md"), project)
		for _, n := range []int{MaxFile, 2 << 20} {
			if _, err := Place(dir, "AGENTS.md", strings.Repeat("r", n), nil); !errors.Is(err, ErrTooLarge) {
				t.Errorf("%d: %v", n, err)
			}
		}
		if get(t, filepath.Join(dir, "AGENTS.md")) != project {
			t.Error("changed")
		}
	})
}

func TestTheAgentReplacesTheFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "AGENTS.md")
	put(t, name, project)
	outside := filepath.Join(t.TempDir(), "secret")
	put(t, outside, "secret")

	p := place(t, dir, "AGENTS.md", "R", nil)
	put(t, name, "all mine\n")
	restore(t, p)
	if get(t, name) != "all mine\n" {
		t.Error("what the agent wrote is gone")
	}

	p = place(t, dir, "AGENTS.md", "R", nil)
	os.Remove(name)
	restore(t, p)
	alone(t, dir)

	p = place(t, dir, "AGENTS.md", "R", nil)
	os.Remove(name)
	if err := os.Symlink(outside, name); err != nil {
		t.Fatal(err)
	}
	if err := p.Restore(); !errors.Is(err, ErrLink) || !strings.Contains(err.Error(), name) {
		t.Error(err)
	}
	if get(t, outside) != "secret" {
		t.Error("written through")
	}

	os.Remove(name)
	p = place(t, dir, "AGENTS.md", "R", nil)
	put(t, name, strings.SplitAfter(get(t, name), "\n")[0]+"mine\n") // one mark is left
	restore(t, p)
	if get(t, name) != "mine\n" {
		t.Errorf("%q", get(t, name))
	}
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	if _, err := Place(dir, "AGENTS.md", "R", &Options{Tracked: true, Commits: true}); !errors.Is(err, ErrTracked) {
		t.Error(err)
	}
	for _, file := range []string{"../x", "/x", ".", ""} {
		if _, err := Place(dir, file, "R", nil); err == nil {
			t.Errorf("%q was placed", file)
		}
	}
	os.Mkdir(filepath.Join(dir, "AGENTS.md"), 0o755)
	if _, err := Place(dir, "AGENTS.md", "R", nil); err == nil {
		t.Error("a folder")
	}
	put(t, filepath.Join(dir, "rules"), "a file")
	if _, err := Place(dir, "rules/x.mdc", "R", nil); err == nil {
		t.Error("a file is in the way")
	}
	alone(t, dir, "AGENTS.md", "rules")
}

// A run that died: at any point between the journal and the end, the next one
// to look restores it.
func TestRecover(t *testing.T) {
	for _, when := range []string{"before anything was made", "placed", "a file beside it", "edited"} {
		t.Run(when, func(t *testing.T) {
			s, err := store.Open(filepath.Join(t.TempDir(), "state"))
			if err != nil {
				t.Fatal(err)
			}
			run, err := s.Create(store.NewID(time.Now()))
			if err != nil {
				t.Fatal(err)
			}
			j, err := run.Journal()
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			name, exclude := filepath.Join(dir, "AGENTS.md"), filepath.Join(dir, "git", "info", "exclude")
			put(t, name, project)
			put(t, exclude, "# user's\n")
			p := place(t, dir, "AGENTS.md", "R", &Options{Journal: j, Exclude: exclude, Top: dir})
			want := project
			switch when {
			case "before anything was made":
				put(t, name, project)
				put(t, exclude, "# user's\n")
			case "a file beside it":
				put(t, name, project)
				put(t, name+"."+p.undo.Token, "half")
			case "edited":
				put(t, name, get(t, name)+"agent\n")
				want += "agent\n"
			}
			run.Close()

			again, err := s.Get(run.ID())
			if err != nil {
				t.Fatal(err)
			}
			if err := again.Claim(); err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			if j, err = again.Journal(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := Recover(j, nil); err != nil {
					t.Fatal(err)
				}
			}
			if get(t, name) != want || get(t, exclude) != "# user's\n" {
				t.Errorf("%q, %q", get(t, name), get(t, exclude))
			}
			if left, _ := j.Pending(); len(left) != 0 {
				t.Errorf("pending %v", left)
			}
			alone(t, dir, "AGENTS.md", "git", "git/info", "git/info/exclude")
		})
	}
}
