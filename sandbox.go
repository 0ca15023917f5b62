package rein

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/guard/sandbox"
	"github.com/rein-run/rein/guard/sandbox/inside"
	"github.com/rein-run/rein/guard/sandbox/proxy"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/keeper"
	"github.com/rein-run/rein/internal/unixsock"
	"github.com/rein-run/rein/store"
)

// ErrSandbox: Task.Sandbox asks for a sandbox, and none can be made.
var ErrSandbox = errors.New("no sandbox can be made")

// Sandbox is what the report says of the kernel's part in what a run might not
// do.
type Sandbox struct {
	Kind    string   `json:"kind"`    // SandboxNone, SandboxBwrap or SandboxLandlock
	Network string   `json:"network"` // NetworkOpen, or NetworkModel: Reach alone
	Reach   []string `json:"reach"`   // addresses of the model and the login
	Refused []string `json:"refused"` // the first ones that were asked for in vain
	Gaps    []string `json:"gaps"`    // what it does not hold
}

// Values of Sandbox.
const (
	SandboxNone     = "none"
	SandboxBwrap    = "bwrap"    // bubblewrap: namespaces and mounts
	SandboxLandlock = "landlock" // where there is no bubblewrap: weaker, Gaps say how

	NetworkOpen  = "open"
	NetworkModel = "model"
)

// box is the sandbox of one run; nil: it has none.
type box struct {
	kind   string
	opts   sandbox.Options
	conf   inside.Config
	needs  agent.Needs
	gaps   []string
	keeper []string // the argv of the keeper's program
	stubs  []sandbox.Stub
	proxy  *proxy.Proxy // nil: the network is open
}

// proxyName is the socket of the proxy in the directory of the run.
const proxyName = "proxy"

// findBox finds the strongest sandbox that can be made here, and refuses the run
// when there is none.
func (p *prepared) findBox(ctx context.Context) error {
	if !p.task.Sandbox {
		return nil
	}
	_, boxed := p.agent.(agent.Boxed)
	switch {
	case !p.local:
		return taskError("--sandbox", "on %s: a sandbox is made on this machine only, so far", p.where)
	case p.facts.OS != "linux":
		return taskError("--sandbox", "a sandbox is made on Linux only; run it in a container or a virtual machine")
	case !boxed:
		return taskError("--sandbox", "what %s needs of the world around it is not known", p.agent.Name())
	}
	place, err := p.host.Look(ctx, "", nil)
	if err != nil {
		return err
	}
	if len(place.Keeper) == 0 {
		return taskError("--sandbox", "it needs the keeper's program: name one in Options.Keeper")
	}
	b := &box{kind: SandboxBwrap, keeper: place.Keeper}
	b.opts = sandbox.Options{UID: p.facts.UID, Network: p.policy.Network(), Home: p.facts.Home}
	err = p.findBwrap(ctx, &b.opts)
	if err != nil {
		if abi := inside.ABI(); abi < inside.MinABI {
			return fmt.Errorf("--sandbox: %w: %w; and Landlock %d or newer is not in this kernel (it has %d)", ErrSandbox, err, inside.MinABI, abi)
		}
		b.kind = SandboxLandlock
		b.gaps = append(b.gaps, "bubblewrap is not used: "+clip(err.Error(), maxEvidence))
	}
	p.box = b
	return nil
}

func (p *prepared) findBwrap(ctx context.Context, o *sandbox.Options) error {
	place, err := p.host.Look(ctx, "bwrap", nil)
	if errors.Is(err, driver.ErrNotFound) {
		return sandbox.ErrMissing
	} else if err != nil {
		return err
	}
	o.Bwrap = place.Exe
	return sandbox.Check(ctx, func(ctx context.Context, argv ...string) ([]byte, error) {
		out, errOut, exit, err := p.host.Output(ctx, &driver.Spec{Argv: argv, Helper: true}, 4<<10)
		if err == nil && (exit.Code == nil || *exit.Code != 0) {
			err = errors.New(clip(strings.TrimSpace(string(errOut)), maxEvidence))
		}
		return out, err
	}, *o)
}

// enclose turns the command into one in the sandbox.
func (p *prepared) enclose() error {
	b := p.box
	if b == nil {
		return nil
	}
	env := p.environ()
	inv := agent.Invocation{Dir: p.task.Dir, Model: p.task.Model, Args: p.task.Args}
	b.needs = p.agent.(agent.Boxed).Needs(inv, p.facts, agent.World{Env: env, ReadFile: readSome})
	if !b.opts.Network {
		if len(b.needs.Endpoints) == 0 {
			return taskError("--sandbox", "nothing says where the model of %s is: log in or set its address, or give --network too", p.agent.Name())
		}
		b.proxy = &proxy.Proxy{Allow: b.needs.Endpoints, Dial: proxy.Upstream(env, nil)}
		b.conf.Dir, b.conf.Name = p.store.RunDir(p.id), proxyName
		for _, e := range b.needs.Endpoints {
			if host, _, _ := net.SplitHostPort(e); isLoopback(host) {
				b.conf.Mirror = append(b.conf.Mirror, e)
			}
		}
	}
	b.paths(p, env)
	argv := append(slices.Clone(b.keeper), inside.Verb)
	var err error
	if b.kind == SandboxLandlock {
		b.landlock(p)
		argv = append(argv, b.conf.Args(p.cmd.Argv)...)
	} else {
		b.bwrapGaps()
		argv, err = sandbox.Wrap(b.opts, append(argv, b.conf.Args(p.cmd.Argv)...))
	}
	if errors.Is(err, sandbox.ErrDir) {
		return &TaskError{Field: "--sandbox", Err: err}
	} else if err != nil {
		return err
	}
	p.spec.Argv = argv
	return agent.CheckArgs(argv, p.spec.Env, p.facts.OS)
}

// paths fills in what may be written and seen.
func (b *box) paths(p *prepared, env driver.Env) {
	o := &b.opts
	run := p.store.RunDir(p.id)
	o.Dir, o.ReadOnly = real(p.task.Dir), p.task.Mode == agent.ReadOnly
	o.Blank = filepath.Join(run, blankDir)
	o.Exists = func(path string) bool { _, err := os.Lstat(path); return err == nil }
	for _, dir := range b.needs.State {
		o.Write = append(o.Write, real(dir))
	}
	for _, f := range b.needs.Fixed {
		o.Fixed = append(o.Fixed, inReal(f))
		if !o.Exists(f) {
			b.stubs = append(b.stubs, sandbox.Stub{Path: inReal(f), Dir: strings.HasSuffix(f, "/")})
		}
	}
	for _, f := range b.needs.Kept {
		if o.Exists(f) {
			o.Fixed = append(o.Fixed, inReal(f))
		}
	}
	if p.repo != nil {
		o.Git = &sandbox.Git{CommonDir: real(p.repo.CommonDir), GitDir: real(p.repo.GitDir), Top: p.repo.Top}
		if o.Git.Top != "" {
			o.Git.Top = real(o.Git.Top)
		}
		if p.policy.Commits() {
			o.Branch = p.protect.branch
		}
		if stub, ok := sandbox.CommonStub(*o); ok && b.kind == SandboxBwrap {
			b.stubs = append(b.stubs, stub)
		}
	}

	// Of the directory of all runs, whose sockets control them and whose
	// transcripts hold what others were told, what this one needs.
	o.Hide = []string{real(p.store.Dir)}
	run = filepath.Join(real(p.store.Runs()), p.id)
	see := func(path string) {
		if sandbox.Inside(path, append(sandbox.Hidden(), o.Hide...)...) && !slices.Contains(sandbox.Hidden(), path) && !slices.Contains(o.Reach, path) {
			o.Reach = append(o.Reach, path)
		}
	}
	if p.ask != nil {
		see(filepath.Join(run, keeper.AskSocket))
	}
	if b.proxy != nil {
		see(filepath.Join(run, proxyName))
	}
	if len(p.blocks.Files) > 0 {
		see(filepath.Join(run, blockDir))
	}
	for _, f := range p.cmd.Files {
		see(filepath.Join(run, f.Name))
	}
	see(b.keeper[0])
	for _, exe := range []string{p.facts.Exe, real(p.facts.Exe)} {
		if i := strings.Index(exe, "/node_modules/"); i > 0 {
			exe = exe[:i+len("/node_modules")]
		} else {
			exe = filepath.Dir(exe)
		}
		see(exe)
	}
	for _, dir := range append(filepath.SplitList(cmp.Or(env["PATH"], p.facts.Path)), env["HOME"]) {
		if filepath.IsAbs(dir) && o.Exists(dir) && !sandbox.Inside(dir, o.Hide...) {
			see(dir)
		}
	}
	if o.Git != nil && o.Git.Top != "" {
		see(o.Git.Top)
	}
}

// blankDir holds the empty directory and file that stand in a sandbox for what
// must not come to be.
const blankDir = "blank"

// bwrapGaps says what bubblewrap does not hold.
func (b *box) bwrapGaps() {
	o := b.opts
	b.gaps = append(b.gaps, "what the user can read can be read, and a Unix socket that is not below /run or /tmp be connected to")
	if o.Git != nil && o.Git.GitDir == o.Git.CommonDir && !o.ReadOnly {
		b.gaps = append(b.gaps, "HEAD, config and packed-refs are writable once somebody outside has replaced them (git checkout, git config): not so in a linked worktree")
	}
	if o.Branch != "" {
		b.gaps = append(b.gaps, "with commits, other branches in the folder of "+o.Branch+" can be moved and made")
	}
	if o.Network {
		b.gaps = append(b.gaps, "the network is open, abstract Unix sockets with it")
	}
}

// landlock says what may be written where Landlock is the sandbox, and what it
// does not hold.
func (b *box) landlock(p *prepared) {
	o := b.opts
	cache := filepath.Join(p.store.RunDir(p.id), cacheDir)
	p.spec.Env["XDG_CACHE_HOME"] = cache
	w := append([]string{"/tmp", "/var/tmp", cache}, o.Write...)
	if tmp := p.environ()["TMPDIR"]; tmp != "" {
		w = append(w, tmp)
	}
	if !o.ReadOnly {
		w = append(w, o.Dir)
	}
	b.gaps = append(b.gaps,
		"nothing is hidden: every file of the user can be read, every socket in /run and /tmp be connected to (a container engine, the session bus)",
		"temporary files are shared with other programs, and the agent's own settings are writable",
	)
	if g := o.Git; g != nil && !o.ReadOnly {
		switch {
		case g.GitDir != g.CommonDir:
			w = append(w, g.GitDir, filepath.Join(g.CommonDir, "objects"))
			b.gaps = append(b.gaps, "HEAD of this working tree is writable")
		default:
			w = append(w, g.GitDir)
			b.gaps = append(b.gaps, "the references, HEAD, configuration and hooks of the repository are writable: not so, but for HEAD, in a linked worktree")
		}
		if o.Branch != "" {
			w = append(w, sandbox.Branch(g, o.Branch)...)
			b.gaps = append(b.gaps, "with commits, other branches in the folder of "+o.Branch+" can be moved and made")
		}
	}
	if o.Network {
		b.gaps = append(b.gaps, "the network is open")
	} else {
		b.gaps = append(b.gaps, "UDP is open (names are resolved), and servers that the agent starts on this machine cannot be connected to")
	}
	b.conf.Landlock = &inside.Landlock{Write: w}
}

const cacheDir = "cache"

// place makes what has to be there before the start. All of it stays but the
// Stubs that are Gone afterwards: what the agent's CLI would have made itself.
func (b *box) place(dir *store.Run) error {
	if b == nil {
		return nil
	}
	folders := slices.Clone(b.opts.Write)
	if b.kind == SandboxLandlock {
		folders = append(folders, dir.Path(cacheDir))
	}
	if g := b.opts.Git; g != nil && b.opts.Branch != "" {
		folders = append(folders, sandbox.Branch(g, b.opts.Branch)[:2]...)
	}
	for _, d := range folders {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
	}
	if b.kind == SandboxLandlock {
		return nil
	}
	if err := os.Mkdir(b.opts.Blank, 0o700); err != nil {
		return err
	}
	// Executable: it may stand in for a program, of which a missing right would
	// tell less than its silence.
	f, err := os.OpenFile(filepath.Join(b.opts.Blank, "file"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	for _, s := range b.stubs {
		if err := s.Place(); err != nil {
			return err
		}
	}
	return nil
}

// open serves the way to the model; close ends it. Both are for a nil box too.
func (b *box) open(ctx context.Context, dir *store.Run) (closed func(), err error) {
	if b == nil {
		return func() {}, nil
	}
	undo := func() { sandbox.Remove(b.stubs) }
	if err := b.place(dir); err != nil {
		undo()
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	if b.proxy == nil {
		return undo, nil
	}
	l, err := unixsock.Listen(dir.Dir(), proxyName)
	if err != nil {
		undo()
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = b.proxy.Serve(ctx, l) // without it the agent reaches nothing, and says so
	}()
	return func() {
		cancel()
		<-done
		undo()
	}, nil
}

// placed are the stubs, for who finishes a run whose supervisor died.
func (b *box) placed() []sandbox.Stub {
	if b == nil {
		return nil
	}
	return b.stubs
}

// report is what the report says.
func (b *box) report() Sandbox {
	s := Sandbox{Kind: SandboxNone, Network: NetworkOpen, Reach: []string{}, Refused: []string{}, Gaps: []string{}}
	if b == nil {
		return s
	}
	s.Kind, s.Gaps = b.kind, nonNil(b.gaps)
	if b.proxy != nil {
		s.Network, s.Reach, s.Refused = NetworkModel, nonNil(b.needs.Endpoints), nonNil(b.proxy.Refused())
	}
	return s
}

// leftovers are the processes that the agent left, without those of the sandbox,
// which end a moment after it.
func (b *box) leftovers(all []driver.Proc) []driver.Proc {
	if b == nil {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(p driver.Proc) bool { return p.Name == inside.RelayName || p.Name == "bwrap" })
}

// real is path without symbolic links, as far as it exists.
func real(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	return filepath.Clean(path)
}

// inReal is path with its directory resolved. A link itself is left: what it
// leads to is not in the agent's state.
func inReal(path string) string {
	path = filepath.Clean(path)
	return filepath.Join(real(filepath.Dir(path)), filepath.Base(path))
}

func readSome(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 1<<20))
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
