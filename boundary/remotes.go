package boundary

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rein-run/rein/internal/git"
)

// Remote is what one URL of a remote had.
type Remote struct {
	Name string `json:"name"`
	Push bool   `json:"push,omitempty"` // the URL is the one for pushing, where that is another
	// URL as it was before the run, absolute; "" where it holds a user or a
	// password. Sum tells whether it is the same one.
	URL string `json:"url,omitempty"`
	Sum string `json:"sum"`

	Checked bool   `json:"checked"`
	Why     string `json:"why,omitempty"` // why it was not checked
	// Own says that it answers only with the repository's own configuration
	// (an ssh command, a proxy, a header), Partial that it has so many
	// references that only branches and tags are kept.
	Own     bool      `json:"own,omitempty"`
	Partial bool      `json:"partial,omitempty"`
	Refs    []git.Ref `json:"refs,omitempty"`

	url string // as it is, for this process alone
}

const (
	maxRemotes    = 16
	maxRemoteRefs = 50_000
	remoteTime    = 10 * time.Second
)

// found are the URLs that the repository's configuration knows.
func (s *Snapshot) found() []Remote {
	var all []Remote
	for _, push := range []bool{false, true} {
		for _, r := range s.raw {
			name, ok := strings.CutPrefix(r.Key, "remote.")
			suffix := ".url"
			if push {
				suffix = ".pushurl"
			}
			if !ok || !strings.HasSuffix(name, suffix) || r.Value == "" {
				continue
			}
			m := Remote{Name: strings.TrimSuffix(name, suffix), Push: push, url: r.Value}
			sum := sha256.Sum256([]byte(r.Value))
			m.Sum = hex.EncodeToString(sum[:12])
			if !secretURL(r.Value) {
				m.URL = s.absolute(r.Value)
			}
			if !slices.ContainsFunc(all, func(o Remote) bool { return o.Sum == m.Sum }) {
				all = append(all, m)
			}
		}
	}
	return all
}

// absolute makes a path that is relative to the repository one that is not.
func (s *Snapshot) absolute(url string) string {
	colon, slash := strings.IndexByte(url, ':'), strings.IndexByte(url, '/')
	remote := strings.Contains(url, "://") || colon >= 0 && (slash < 0 || colon < slash)
	if remote || absolute(url) {
		return url
	}
	return path.Join(cmp.Or(s.Top, s.GitDir), url)
}

// remotes asks the remotes, all at once. It fails for none: a remote that gives
// no answer says so.
func (s *Snapshot) remotes(ctx context.Context, o *Options, prior *Snapshot) {
	if o.Remote == nil {
		return
	}
	trusted := true
	if prior == nil {
		s.Remotes = s.found()
	} else {
		// Those of before, wherever the configuration now says they are.
		trusted = slices.EqualFunc(prior.Config, s.Config, func(a, b Setting) bool {
			return a.Key == b.Key && a.File == b.File && a.Sum == b.Sum
		})
		now := s.found()
		s.Remotes = slices.Clone(prior.Remotes)
		for i := range s.Remotes {
			m := &s.Remotes[i]
			m.Refs = nil
			if m.url == "" {
				if j := slices.IndexFunc(now, func(n Remote) bool { return n.Sum == m.Sum && n.Name == m.Name }); j >= 0 {
					m.url = now[j].url
				}
			}
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(o.RemoteTime, remoteTime), errors.New("no answer in time"))
	defer cancel()
	trusted = trusted && !s.ownPrograms()
	ssh, own := s.sshCommand()
	var wg sync.WaitGroup
	for i := range s.Remotes {
		m := &s.Remotes[i]
		switch {
		case prior != nil && !m.Checked: // nothing to compare with
			continue
		case i >= maxRemotes:
			m.Checked, m.Why = false, fmt.Sprintf("only the first %d URLs are asked", maxRemotes)
			continue
		}
		wg.Go(func() {
			err := m.ask(ctx, o.Remote, s, asking{after: prior != nil, trusted: trusted, ssh: ssh, ownSSH: own})
			if m.Checked = err == nil; !m.Checked {
				if ctx.Err() != nil {
					err = context.Cause(ctx)
				}
				m.Why, m.Refs = git.Anonymous(err.Error()), nil
			}
		})
	}
	wg.Wait()
}

type asking struct {
	after       bool   // the run is over
	trusted     bool   // the repository's configuration may be used
	ssh, ownSSH string // without and with it
}

// ask asks one URL. The repository's own configuration names programs, so it is
// used only where the remote does not answer without, and after the run only
// when it is what it was.
func (m *Remote) ask(ctx context.Context, run git.Runner, s *Snapshot, how asking) error {
	own := &git.LsRemoteOptions{GitDir: s.GitDir, SSH: how.ownSSH}
	var err error
	switch {
	case m.URL == "" && m.Push:
		return errors.New("the URL for pushing holds a user or a password, which would show in a command line")
	case m.URL == "" && !how.trusted:
		return errors.New("its URL holds a user or a password, and the configuration that knows it was changed")
	case m.URL == "":
		// By name: a command line can be seen by others.
		m.Own = true
		m.Refs, err = git.LsRemote(ctx, run, m.Name, own)
	case how.after && m.Own && !how.trusted:
		return errors.New("it answers only with the repository's own configuration, which was changed")
	case how.after && m.Own:
		m.Refs, err = git.LsRemote(ctx, run, m.URL, own)
	default:
		m.Refs, err = git.LsRemote(ctx, run, m.URL, &git.LsRemoteOptions{SSH: how.ssh})
		if err != nil && !how.after && how.trusted && ctx.Err() == nil && s.transports() {
			if refs, again := git.LsRemote(ctx, run, m.URL, own); again == nil {
				m.Refs, m.Own, err = refs, true, nil
			}
		}
	}
	if m.Partial = m.Partial || len(m.Refs) > maxRemoteRefs; m.Partial {
		m.Refs = slices.DeleteFunc(m.Refs, func(r git.Ref) bool {
			return !strings.HasPrefix(r.Name, "refs/heads/") && !strings.HasPrefix(r.Name, "refs/tags/")
		})
	}
	return err
}

// transports says that the configuration has something that a remote may need
// and that holds in this repository only.
func (s *Snapshot) transports() bool {
	return slices.ContainsFunc(s.raw, func(r git.Setting) bool {
		section, _, _ := strings.Cut(r.Key, ".")
		switch section {
		case "includeif":
			return true
		case "credential", "http", "https", "url", "ssh":
			return r.Scope == "local" || r.Scope == "worktree"
		case "remote":
			return strings.HasSuffix(r.Key, ".proxy") || strings.HasSuffix(r.Key, ".uploadpack") || strings.HasSuffix(r.Key, ".vcs")
		}
		return (r.Scope == "local" || r.Scope == "worktree") && (r.Key == "core.sshcommand" || r.Key == "core.gitproxy" || r.Key == "core.askpass")
	})
}

// ownPrograms says that the configuration names a program or a file that lies in
// the repository: the setting is the same after the run, and what it names may
// not be. A relative one is not found, for nothing is asked from there.
func (s *Snapshot) ownPrograms() bool {
	return slices.ContainsFunc(s.raw, func(r git.Setting) bool {
		if r.Scope != "local" && r.Scope != "worktree" {
			return false
		}
		section, _, _ := strings.Cut(r.Key, ".")
		name := r.Key[strings.LastIndexByte(r.Key, '.')+1:]
		switch {
		case section == "credential", section == "http", section == "https", section == "ssh",
			r.Key == "core.sshcommand", r.Key == "core.askpass", r.Key == "core.gitproxy",
			section == "remote" && (name == "uploadpack" || name == "vcs" || name == "proxy"):
		default:
			return false
		}
		return strings.ContainsAny(r.Value, "$`") ||
			s.Top != "" && strings.Contains(r.Value, s.Top) || strings.Contains(r.Value, s.CommonDir)
	})
}

// sshCommand is the user's core.sshCommand, and the one that holds here.
func (s *Snapshot) sshCommand() (ssh, own string) {
	for _, r := range s.raw {
		if r.Key != "core.sshcommand" {
			continue
		}
		own = r.Value
		if r.Scope != "local" && r.Scope != "worktree" {
			ssh = r.Value
		}
	}
	return ssh, own
}

// remotes compares what the remotes have.
func (p *pair) remotes() {
	for i, b := range p.before.Remotes {
		if i >= len(p.after.Remotes) {
			break
		}
		a := p.after.Remotes[i]
		if !b.Checked || !a.Checked {
			continue
		}
		if b.Partial != a.Partial {
			continue // told in Result.Unseen
		}
		q := pair{before: Snapshot{Dir: p.before.Dir, Refs: b.Refs}, after: Snapshot{Refs: a.Refs}}
		q.refs()
		for _, c := range q.changes {
			ref := c.Ref
			c.What = "remote " + c.What
			c.Ref = b.Name + " " + ref
			c.kind, c.path, c.name = remote, b.Name, ref
			// What it was has to be here to be pushed; Check sees to that.
			to := b.Name
			if b.Push || slices.ContainsFunc(p.before.Remotes, func(o Remote) bool { return o.Push && o.Name == b.Name }) {
				to = b.URL // the name means several
			}
			c.Restore = ""
			if to != "" {
				c.Restore = p.git("push", "--force-with-lease="+ref+":"+c.After, to, c.Before+":"+ref)
			}
			p.changes = append(p.changes, c)
		}
	}
}
