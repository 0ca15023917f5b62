package rules

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rein-run/rein/internal/disk"
)

// pattern matches the file and nothing else (gitignore(5)).
func pattern(top, dir, file string) string {
	rel, err := filepath.Rel(top, dir)
	if err != nil || top == "" || !filepath.IsLocal(rel) {
		rel = "."
	}
	p := filepath.ToSlash(filepath.Join(rel, filepath.FromSlash(file)))
	return "/" + strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(p)
}

// exclude changes the lines of info/exclude. The file is of all working trees of
// the repository: other runs change it too.
func (p *Placed) exclude(change func(u *undo, lines []string) []string) error {
	u := &p.undo
	if u.Pattern == "" {
		return nil
	}
	if p.o.Lock != nil {
		release, err := p.o.Lock()
		if err != nil {
			return err
		}
		defer release()
	}
	mode := fs.FileMode(0o644)
	b, err := disk.ReadFile(u.Exclude, maxOriginal)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.Mkdir(filepath.Dir(u.Exclude), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // the repository is gone
			}
			return err
		}
	case err != nil:
		return err
	default:
		if st, err := os.Lstat(u.Exclude); err == nil {
			mode = st.Mode().Perm()
		}
	}
	old := string(b)
	lines := change(u, strings.SplitAfter(old, "\n"))
	now := strings.Join(lines, "")
	if now == old {
		return nil
	}
	if now == "" { // there was none: git makes an empty one never
		return os.Remove(u.Exclude)
	}
	if err := disk.Replace(u.Exclude, []byte(now), true); err != nil {
		return err
	}
	return os.Chmod(u.Exclude, mode)
}

// mark is the comment that says whose the next line is.
func (u *undo) mark() string { return "# rules of one run: " + u.Token + "\n" }

func addPattern(u *undo, lines []string) []string {
	// First: the last line of the user's may have no end, and is to stay so.
	return append([]string{u.mark(), u.Pattern + "\n"}, lines...)
}

func dropPattern(u *undo, lines []string) []string {
	if i := slices.Index(lines, u.mark()); i >= 0 {
		n := 1
		if i+1 < len(lines) && lines[i+1] == u.Pattern+"\n" {
			n = 2
		}
		lines = slices.Delete(lines, i, i+n)
	}
	return lines
}
