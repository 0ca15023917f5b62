package boundary

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/rein-run/rein/internal/git"
)

// Setting is one key of the repository's configuration, in one file.
type Setting struct {
	Key  string `json:"key"`
	File string `json:"file"` // "config", "config.worktree", or the path of an included file
	// Sum changes with the values. Values are kept only where the key is none
	// that holds secrets; Known says so.
	Sum    string   `json:"sum"`
	Known  bool     `json:"known,omitempty"`
	Values []string `json:"values,omitempty"`
}

const (
	ownConfig  = "config"
	treeConfig = "config.worktree"
)

// settings are those of the repository itself, and of the working tree: what the
// user and the system have configured is not an agent's to find here.
func settings(s *Snapshot) []Setting {
	type id struct{ file, key string }
	var order []id
	values := map[id][]git.Setting{}
	first := map[string]string{} // scope → the file that includes the others
	for _, r := range s.raw {
		if r.Scope != "local" && r.Scope != "worktree" {
			continue
		}
		if _, ok := first[r.Scope]; !ok {
			first[r.Scope] = r.File // what includes is read before what is included
		}
		k := id{r.File, r.Key}
		if r.File == first[r.Scope] {
			k.file = ownConfig
			if r.Scope == "worktree" {
				k.file = treeConfig
			}
		}
		if values[k] == nil {
			order = append(order, k)
		}
		values[k] = append(values[k], r)
	}
	all := make([]Setting, 0, len(order))
	for _, k := range order {
		all = append(all, newSetting(k.file, k.key, values[k]))
	}
	slices.SortFunc(all, func(a, b Setting) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Key, b.Key)) })
	return all
}

func newSetting(file, key string, raw []git.Setting) Setting {
	s := Setting{Key: key, File: file, Known: true}
	sum := sha256.New()
	for _, r := range raw {
		sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(r.Value))))
		sum.Write([]byte(r.Value))
		if r.Empty {
			sum.Write([]byte{1})
		}
		s.Known = s.Known && !r.Empty && harmless(key, r.Value)
		s.Values = append(s.Values, r.Value)
	}
	if !s.Known {
		s.Values = nil
	}
	s.Sum = hex.EncodeToString(sum.Sum(nil)[:12])
	return s
}

// harmless says that a value may be written down: keys that never hold a secret,
// and URLs without a user. Commands may have a token among their arguments, and
// the rest of the configuration belongs to programs that nobody here knows.
func harmless(key, value string) bool {
	if len(value) > 1024 || secretURL(value) {
		return false
	}
	section, name := key[:strings.IndexByte(key+".", '.')], key[strings.LastIndexByte(key, '.')+1:]
	switch section {
	case "core":
		return !slices.Contains([]string{"sshcommand", "askpass", "gitproxy", "editor", "pager", "fsmonitor", "alternaterefscommand"}, name)
	case "remote":
		return slices.Contains([]string{"url", "pushurl", "fetch", "push", "mirror", "tagopt", "prune", "promisor", "partialclonefilter"}, name)
	case "submodule":
		return slices.Contains([]string{"url", "active", "path", "branch", "update"}, name) && !strings.HasPrefix(value, "!")
	case "user":
		return name == "name" || name == "email" || name == "signingkey"
	case "branch", "extensions", "include", "includeif", "push", "pull", "fetch", "gc", "merge", "rebase", "commit", "tag", "init", "index", "status", "advice":
		return true
	}
	return false
}

// secretURL says that s has a URL with a user in it that may be a token.
func secretURL(s string) bool {
	_, rest, ok := strings.Cut(s, "://")
	if !ok {
		return false
	}
	user, _, ok := strings.Cut(rest[:strings.IndexAny(rest+"/", "/ ")], "@")
	return ok && (strings.Contains(user, ":") || !strings.Contains(s, "ssh://"))
}

// config compares the configuration.
func (p *pair) config() {
	b, a := p.before.Config, p.after.Config
	key := func(s Setting) string { return s.File + "\x00" + s.Key }
	for len(b) > 0 || len(a) > 0 {
		switch {
		case len(a) == 0 || len(b) > 0 && key(b[0]) < key(a[0]):
			p.setting(ConfigRemoved, &b[0], nil)
			b = b[1:]
		case len(b) == 0 || key(a[0]) < key(b[0]):
			p.setting(ConfigAdded, nil, &a[0])
			a = a[1:]
		default:
			if b[0].Sum != a[0].Sum {
				p.setting(ConfigChanged, &b[0], &a[0])
			}
			b, a = b[1:], a[1:]
		}
	}
}

func (p *pair) setting(what string, b, a *Setting) {
	one := cmp.Or(b, a)
	c := Change{What: what, Ref: one.Key, kind: config, path: one.Key}
	c.Before, c.After = b.show(), a.show()
	file := ""
	switch one.File {
	case ownConfig:
		file = p.before.CommonDir + "/config"
	case treeConfig:
		file = p.before.GitDir + "/config.worktree"
	default:
		c.Ref += " in " + one.File // what includes it is told, and undone, by itself
	}
	if file != "" && (b == nil || b.Known) {
		// By the name of the file: that works also where a setting makes git
		// refuse the repository.
		edit := func(args ...string) string {
			return line(append([]string{"git", "config", "--file", file}, args...)...)
		}
		var back []string
		if a != nil {
			back = append(back, edit("--unset-all", one.Key))
		}
		if b != nil {
			for _, v := range b.Values {
				back = append(back, edit("--add", one.Key, v))
			}
		}
		c.Restore = strings.Join(back, " && ")
	}
	p.changes = append(p.changes, c)
}

// show is the value for a report; one that may be secret is its sum.
func (s *Setting) show() string {
	switch {
	case s == nil:
		return ""
	case s.Known:
		return strings.Join(s.Values, ", ")
	}
	return "(not shown: " + s.Sum[:8] + ")"
}
