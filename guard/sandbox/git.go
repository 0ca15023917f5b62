package sandbox

import "path"

// Git is where the repository of the run lies.
type Git struct {
	CommonDir string // refs, objects, config
	GitDir    string // HEAD and index of this working tree
	Top       string // of this working tree, "" in a bare repository
}

// repository makes read-only what names history and what git would run, and
// leaves the index and the objects writable, so that add and diff work.
//
// What is bound on itself cannot be renamed: "mv .git x; cp -r x .git" would
// leave every mount behind.
func repository(o Options) []string {
	g := o.Git
	m := mounts{o: o}
	if g.GitDir != g.CommonDir {
		m.linked()
	} else {
		m.main()
	}
	if o.Branch != "" {
		for _, p := range Branch(g, o.Branch) {
			if o.Exists(p) {
				m.rw(p)
			}
		}
	}
	return m.args
}

// Branch are the paths that are written when a branch moves. A folder that is
// missing has to be made before.
func Branch(g *Git, ref string) []string {
	return []string{
		path.Dir(path.Join(g.CommonDir, ref)), path.Dir(path.Join(g.CommonDir, "logs", ref)),
		path.Join(g.GitDir, "logs", "HEAD"), path.Join(g.CommonDir, "reftable"),
	}
}

type mounts struct {
	o    Options
	args []string
}

func (m *mounts) rw(p string) { m.args = append(m.args, "--bind", p, p) }

// ro is for a folder: one that does not exist must not come to be.
func (m *mounts) ro(p string) {
	if m.o.Exists(p) {
		m.args = append(m.args, "--ro-bind", p, p)
		return
	}
	m.args = append(m.args, "--ro-bind", m.o.Blank, p)
}

func (m *mounts) file(p string) {
	if m.o.Exists(p) {
		m.args = append(m.args, "--ro-bind", p, p)
		return
	}
	m.args = append(m.args, "--ro-bind", path.Join(m.o.Blank, "file"), p)
}

// linked is for a linked working tree. All that the trees share is read-only as
// one, but for the objects, so that nothing depends on single files: a mount on
// a file is gone when somebody outside replaces the file (git config, git
// checkout). Seen with kernel 6.18.
func (m *mounts) linked() {
	g := m.o.Git
	m.args = append(m.args, "--ro-bind", g.CommonDir, g.CommonDir)
	m.rw(path.Join(g.CommonDir, "objects"))
	m.rw(g.GitDir) // its index
	for _, name := range []string{"HEAD", "commondir", "gitdir", "config.worktree"} {
		m.file(path.Join(g.GitDir, name))
	}
	m.ro(path.Join(g.GitDir, "logs"))
	if p := path.Join(g.GitDir, "refs"); m.o.Exists(p) { // of this tree: bisect
		m.ro(p)
	}
	if g.Top != "" {
		m.file(path.Join(g.Top, ".git"))
	}
}

// main is for the main working tree, whose index lies beside all the rest: each
// is protected by itself.
func (m *mounts) main() {
	dir := m.o.Git.CommonDir
	m.rw(dir)
	for _, name := range []string{"worktrees", "refs", "logs", "hooks", "modules"} {
		m.ro(path.Join(dir, name)) // modules: the repositories of submodules, whole
	}
	if p := path.Join(dir, "reftable"); m.o.Exists(p) {
		m.ro(p)
	}
	for _, name := range []string{"packed-refs", "HEAD", "config"} {
		m.file(path.Join(dir, name))
	}
	if p := path.Join(dir, "config.worktree"); m.o.Exists(p) {
		m.file(p)
	}
	p := path.Join(dir, CommonFile)
	m.args = append(m.args, "--ro-bind", p, p) // placed by then, see CommonStub
}

// CommonFile in the main working tree's .git would lead git to another
// configuration, and so to programs that it starts outside. What no mount can do
// is to keep a file from coming to be, so one that says what holds anyway
// (CommonHere) is placed for the time of the run.
const (
	CommonFile = "commondir"
	CommonHere = ".\n"
)
