//go:build real

package real

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rein-run/rein"
	"github.com/rein-run/rein/agent"
	"github.com/rein-run/rein/host"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/local"
)

// TestDoctor: the help of every real CLI has the flags that its agent uses, and
// in an empty home it says that nobody is logged in.
func TestDoctor(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		name, _, _ := strings.Cut(s.name, "-")
		a, err := rein.Agents().Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		cli := s.cli(t)
		h := host.New(local.New(nil), nil)
		env := driver.Env{"HOME": filepath.Join(t.TempDir(), "home"), "PATH": cli.Path(os.Getenv("PATH"))}
		if err := os.Mkdir(env["HOME"], 0o700); err != nil {
			t.Fatal(err)
		}
		f := agent.Facts{Version: cli.Version, OS: "linux", Exe: cli.Exe, Home: env["HOME"]}
		if missing, ok := agent.MissingFlags(context.Background(), h, a, f, &agent.ProbeOptions{Env: env}); !ok || len(missing) > 0 {
			t.Errorf("missing %q, a help: %v", missing, ok)
		}
		if a.(agent.Doctor).LoginArgs(cli.Version) == nil {
			return // it cannot tell
		}
		if l := agent.AskLogin(context.Background(), h, a, f, env, a.Capabilities(cli.Version).Credentials); l.State != agent.LoggedOut || l.Pays != "" {
			t.Errorf("%+v", l)
		}
	})
}
