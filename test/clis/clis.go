// Package clis installs the real coding-agent CLIs at pinned versions, from the
// npm registry as the machine has it set up, for the tests with the real thing.
//
// Each folder holds a package.json and a lock file without registry addresses.
// What is installed is kept in the user's cache folder and made once.
package clis

import (
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"
)

//go:embed */package.json */package-lock.json
var pins embed.FS

// Names are the CLIs that Install knows.
var Names = []string{"claude", "codex", "pi", "pi-0.73.1", "gemini", "qwen", "grok", "copilot"}

// known is what cannot be read from the lock file.
var known = map[string]struct {
	bin, version string
	after        []string // run by node after npm ci, relative to the folder
}{
	"claude":    {"claude", "2.1.332", []string{"node_modules/@anthropic-ai/claude-code/install.cjs"}},
	"codex":     {"codex", "0.171.0", nil},
	"pi":        {"pi", "1.6.0", nil},
	"pi-0.73.1": {"pi", "0.73.1", nil},
	"gemini":    {"gemini", "0.61.0", nil},
	"qwen":      {"qwen", "0.15.10", nil},
	"grok":      {"grok", "1.0.41", []string{"node_modules/@xai-official/grok/bin/postinstall.js"}},
	"copilot":   {"copilot", "1.0.102", nil},
}

// CLI is an installed CLI.
type CLI struct {
	Name    string // one of Names
	Version string
	Exe     string // absolute path
	Dir     string // to put first in PATH: Exe and, where it needs another, its node
}

// Path returns path with the CLI's folder in front.
func (c CLI) Path(path string) string { return c.Dir + string(os.PathListSeparator) + path }

// Claude returns claude 2.1.332, installed.
func Claude(t testing.TB) CLI { return need(t, "claude") }

// Codex returns codex 0.171.0, installed.
func Codex(t testing.TB) CLI { return need(t, "codex") }

// Pi returns pi 1.6.0 and the node 22 that it needs, installed.
func Pi(t testing.TB) CLI { return need(t, "pi") }

// Pi0 returns pi 0.73.1 (the older package name), installed.
func Pi0(t testing.TB) CLI { return need(t, "pi-0.73.1") }

// Gemini returns gemini 0.61.0, installed.
func Gemini(t testing.TB) CLI { return need(t, "gemini") }

// Qwen returns qwen 0.15.10, installed.
func Qwen(t testing.TB) CLI { return need(t, "qwen") }

// Grok returns grok 1.0.41, installed.
func Grok(t testing.TB) CLI { return need(t, "grok") }

// Copilot returns copilot 1.0.102, installed.
func Copilot(t testing.TB) CLI { return need(t, "copilot") }

func need(t testing.TB, name string) CLI {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	c, err := Install(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Install installs the CLI unless it is there already. Several processes may
// call it at once. ctx bounds the installation, not the wait for another's.
func Install(ctx context.Context, name string) (CLI, error) {
	k, ok := known[name]
	if !ok {
		return CLI{}, fmt.Errorf("clis: %q is none of %v", name, Names)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return CLI{}, fmt.Errorf("clis: no cache folder, set HOME or XDG_CACHE_HOME: %w", err)
	}
	cache = filepath.Join(cache, "rein", "clis")
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return CLI{}, err
	}
	dir := filepath.Join(cache, name+"-"+key(name))
	bin := filepath.Join(dir, "node_modules", ".bin")
	c := CLI{Name: name, Version: k.version, Exe: filepath.Join(bin, k.bin), Dir: bin}
	unlock, err := lockedfile.MutexAt(dir + ".lock").Lock()
	if err != nil {
		return CLI{}, err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return c, nil
	}
	tmp, err := os.MkdirTemp(cache, name+"-new-")
	if err != nil {
		return CLI{}, err
	}
	defer os.RemoveAll(tmp)
	if err := install(ctx, tmp, name); err != nil {
		return CLI{}, fmt.Errorf("clis: %s: %w", name, err)
	}
	// The folder has its name only when everything in it works.
	return c, os.Rename(tmp, dir)
}

// key names one set of pins on one platform.
func key(name string) string {
	h := sha256.New()
	fmt.Fprintln(h, runtime.GOOS, runtime.GOARCH)
	for _, file := range []string{"package.json", "package-lock.json"} {
		b, err := pins.ReadFile(name + "/" + file)
		if err != nil {
			panic(err) // embedded
		}
		h.Write(b)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:6])
}

func install(ctx context.Context, dir, name string) error {
	if _, err := exec.LookPath("npm"); err != nil {
		return errors.New("npm is missing: install Node.js 20 or later (Debian: apt-get install -y nodejs npm)")
	}
	sub, err := fs.Sub(pins, name)
	if err != nil {
		return err
	}
	if err := os.CopyFS(dir, sub); err != nil {
		return err
	}
	// Without the packages' scripts: what one needs is run below, by name.
	if err := run(ctx, dir, nil, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"); err != nil {
		return err
	}
	k := known[name]
	// In a home that is thrown away: grok's would write into the user's. It links
	// its native program, as an installation by npm has it, for npm alone.
	home, err := os.MkdirTemp(dir, "home-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	for _, script := range k.after {
		if err := run(ctx, dir, []string{"HOME=" + home, "npm_config_user_agent=npm/11"}, "node", filepath.FromSlash(script)); err != nil {
			return err
		}
	}
	bin := filepath.Join(dir, "node_modules", ".bin")
	out, err := version(ctx, filepath.Join(bin, k.bin), bin)
	if err != nil || !strings.Contains(out, k.version) {
		return fmt.Errorf("installed, but --version says %q instead of %s: %w", out, k.version, err)
	}
	return nil
}

// version asks the CLI, in an empty home.
func version(ctx context.Context, exe, bin string) (string, error) {
	home, err := os.MkdirTemp("", "rein-clis-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(home)
	cmd := exec.CommandContext(ctx, exe, "--version")
	cmd.Dir = home
	cmd.Env = []string{"HOME=" + home, "PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH")}
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func run(ctx context.Context, dir string, env []string, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	cmd.WaitDelay = 10 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		const most = 2000
		if len(out) > most {
			out = out[len(out)-most:]
		}
		return fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, out)
	}
	return nil
}
