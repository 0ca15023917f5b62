//go:build linux

package far_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rein-run/rein/host"
	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/host/hosttest"
	"github.com/rein-run/rein/host/hosttest/far"
	"github.com/rein-run/rein/host/keeper"
)

func TestMain(m *testing.M) {
	hosttest.Main()
	far.Main()
	os.Exit(m.Run())
}

func output(t *testing.T, h *far.Host, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	stdout, stderr, exit, err := host.New(h, nil).Output(ctx, &driver.Spec{Argv: argv}, 0)
	if err != nil || exit.Code == nil || *exit.Code != 0 {
		t.Fatalf("%s: %v, exit %+v, stderr %s", argv[0], err, exit, stderr)
	}
	return string(stdout)
}

// What is there is only what was put there: no variable, no file, no PATH of
// this process, and not its user.
func TestSharesNothing(t *testing.T) {
	for _, plain := range []bool{false, true} {
		t.Run(fmt.Sprintf("plain=%v", plain), func(t *testing.T) {
			t.Setenv("FAR_LEAK", "leaked")
			h := far.New(t, &far.Options{Plain: plain})
			got := output(t, h, "far-prog", "hosttest-prog", "mark", "env=FAR_LEAK", "env=HOME", "env=PATH", "pwd")
			want := "FAR_LEAK is unset\nHOME=" + h.Home() + "\nPATH=" + h.There("/opt/far/bin") + "\n" + h.Home()
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			place, err := h.Look(context.Background(), "far-prog", nil)
			if err != nil {
				t.Fatal(err)
			}
			if h.Walled() {
				if place.UID == os.Getuid() {
					t.Errorf("commands run as user %d, as this process does", place.UID)
				}
				if _, err := h.Look(context.Background(), h.Here("/opt/far/bin/far-prog"), nil); err == nil {
					t.Error("a name of this machine means something there")
				}
			}
		})
	}
}

func TestWalledForRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may change root and user")
	}
	if h := far.New(t, nil); !h.Walled() {
		t.Error("root, and no wall: this process lacks the right to mount")
	}
}

// Tools work there, and see nothing of this machine.
func TestTools(t *testing.T) {
	h := far.New(t, &far.Options{Tools: []string{"git", "sh"}})
	if got := output(t, h, "git", "--version"); !strings.HasPrefix(got, "git version") {
		t.Errorf("git says %q", got)
	}
	output(t, h, "git", "init", "-q", "repository")
	if _, err := os.Stat(h.Here(h0(h) + "/repository/.git")); err != nil {
		t.Error(err)
	}
	if h.Walled() {
		if got := output(t, h, "/bin/sh", "-c", "echo $0 $HOME"); got != "/bin/sh /home/far\n" {
			t.Errorf("sh says %q", got)
		}
	}
}

func h0(h *far.Host) string { return strings.TrimPrefix(h.Home(), h.There("/")[:len(h.There("/"))-1]) }

// A cut link loses the caller's view and no byte: the keeper's files have all,
// and its word on the end.
func TestCutKeepsTheBytes(t *testing.T) {
	h := far.New(t, nil)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, err := h.Start(ctx, &driver.Spec{
		ID: "cut", Argv: []string{"far-prog", "hosttest-prog", "mark", "trap=term", "out=up", "tail=300000"}, Grace: 20 * time.Second,
	}, discard{})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(h.Here(strings.TrimPrefix(h.Spool(), h.Here(""))), "cut")
	if h.Walled() {
		dir = h.Here(h.Spool() + "/cut")
	}
	file := filepath.Join(dir, "transcript")
	poll(t, "first bytes", func() bool { b, _ := os.ReadFile(file); return bytes.HasPrefix(b, []byte("up")) })
	h.Cut()
	if exit, err := p.Wait(ctx); err != nil || exit.Reason != driver.Lost {
		t.Errorf("exit %+v, %v; want lost", exit, err)
	}
	poll(t, "the keeper's word on the end", func() bool { _, err := keeper.ReadExit(dir); return err == nil })
	exit, err := keeper.ReadExit(dir)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) != 300002 || exit.Stdout != 300002 {
		t.Errorf("the file has %d bytes, the exit says %d; the command wrote 300002", len(b), exit.Stdout)
	}
}

type discard struct{}

func (discard) Data(driver.Stream, []byte) {}

func poll(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s", what)
		}
	}
}
