//go:build unix

package keeper

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/internal/unixsock"
)

// asksProg starts the hook program as an agent CLI does, and prints what came
// of it.
func asksProg(args []string) int {
	size, _ := strconv.Atoi(args[1])
	times, _ := strconv.Atoi(args[2])
	q := make([]byte, size)
	io.ReadFull(&pattern{}, q)
	var all sync.WaitGroup
	var mu sync.Mutex
	for range times {
		all.Go(func() {
			cmd := exec.Command(os.Args[0], args[0])
			cmd.Env = append(os.Environ(), progVar+"=ask")
			cmd.Stdin = bytes.NewReader(q)
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			_ = cmd.Run()
			mu.Lock()
			defer mu.Unlock()
			fmt.Printf("exit %d out %q err %q\n", cmd.ProcessState.ExitCode(), out.String(), errs.String())
		})
	}
	all.Wait()
	return 0
}

// judge is an Output that answers.
type judge struct {
	output
	answer func(q []byte) driver.Reply
}

func (j judge) Ask(q []byte) driver.Reply { return j.answer(q) }

// spoolJudge is one that reads the spool itself.
type spoolJudge struct {
	*spoolSink
	answer func(q []byte) driver.Reply
}

func (j spoolJudge) Ask(q []byte) driver.Reply { return j.answer(q) }

func (a *keeperAt) judge(answer func([]byte) driver.Reply) output {
	if a.local {
		return spoolJudge{newSpoolSink(), answer}
	}
	return judge{newSink(), answer}
}

func asking(t *testing.T, size, times int) *driver.Spec {
	dir := filepath.Join(t.TempDir(), "asks")
	s := prog(t, "asks", dir, strconv.Itoa(size), strconv.Itoa(times))
	s.Ask = &driver.Ask{Dir: dir, Files: []driver.File{{Name: "gate.js", Data: []byte("code")}}}
	return s
}

// A question goes from a program of the command to the Output, wherever the
// keeper is, and the answer comes back.
func TestAsk(t *testing.T) {
	everywhere(t, func(t *testing.T, at *keeperAt) {
		const size = 300 << 10
		want := make([]byte, size)
		io.ReadFull(&pattern{}, want)
		answers := []struct {
			answer driver.Reply
			says   string
		}{
			{driver.Reply{Stdout: []byte("{}")}, `exit 0 out "{}" err ""`},
			{driver.Refuse("no push"), `exit 2 out "" err "no push\n"`},
			{driver.Refuse(""), `exit 2 out "" err "refused\n"`},
			{driver.Reply{Exit: 2, Stdout: make([]byte, maxReply)}, `exit 2 out "" err "rein: the answer is too long\n"`},
		}
		if !at.process || !at.local {
			answers = answers[:1] // where they come from makes no difference
		}
		for _, c := range answers {
			spec := asking(t, size, 1)
			out := at.judge(func(q []byte) driver.Reply {
				if !bytes.Equal(q, want) {
					t.Errorf("the question has %d bytes and is another one", len(q))
				}
				if st, err := os.Stat(filepath.Join(spec.Ask.Dir, "gate.js")); err != nil || st.Mode().Perm() != 0o600 {
					t.Errorf("the file: %v %v", st, err)
				}
				return c.answer
			})
			if e := wait(t, at.start(spec, out)); e.Reason != driver.Exited {
				t.Fatalf("%+v", e)
			}
			if got := strings.TrimSpace(out.String(driver.Stdout)); got != c.says {
				t.Errorf("%.200s, want %s", got, c.says)
			}
			if _, err := os.Lstat(spec.Ask.Dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the directory is left behind: %v", err)
			}
		}
	})
}

// Nobody there to answer, too much to ask: no.
func TestAskRefused(t *testing.T) {
	bothKinds(t, func(t *testing.T, at *keeperAt) {
		for _, c := range []struct {
			size int
			out  output
			says string
		}{
			{10, at.sink(), "nobody answers here"},
			{maxQuestion + 1, at.judge(func([]byte) driver.Reply { return driver.Reply{} }), "longer than"},
		} {
			wait(t, at.start(asking(t, c.size, 1), c.out))
			if got := c.out.String(driver.Stdout); !strings.HasPrefix(got, "exit 2 ") || !strings.Contains(got, c.says) {
				t.Errorf("%s, want exit 2 and %q", got, c.says)
			}
		}
	})
}

// More at once than a keeper passes on: each gets its answer.
func TestAskMany(t *testing.T) {
	at := newKeeperAt(t, places[4])
	const n = 3 * maxAsking
	out := at.judge(func([]byte) driver.Reply { return driver.Reply{} })
	wait(t, at.start(asking(t, 100, n), out))
	if got := strings.Count(out.String(driver.Stdout), "exit 0 "); got != n {
		t.Errorf("%d of %d were answered: %s", got, n, out.String(driver.Stdout))
	}
}

// An Output that does not take the data, or an Asker that hangs, keeps nobody
// from ending the command; what is asked meanwhile is refused by its end.
func TestAskHangs(t *testing.T) {
	bothKinds(t, func(t *testing.T, at *keeperAt) {
		asked, never := make(chan struct{}), make(chan struct{})
		t.Cleanup(func() { close(never) })
		out := at.judge(func([]byte) driver.Reply {
			close(asked)
			<-never
			return driver.Reply{}
		})
		p := at.start(asking(t, 1, 1), out)
		<-asked
		if err := p.Kill(ctxOf(t)); err != nil {
			t.Error(err)
		}
		if e := wait(t, p); e.Reason != driver.Killed {
			t.Errorf("%+v", e)
		}
	})
}

// A process that is none of the command's gets no answer but no, and whatever
// it sends or does not send, the command goes on and can be ended.
func TestAskStranger(t *testing.T) {
	at := newKeeperAt(t, places[4])
	spec := prog(t, "sleep")
	spec.Ask = &driver.Ask{Dir: filepath.Join(t.TempDir(), "asks")}
	out := at.judge(func([]byte) driver.Reply {
		t.Error("a stranger's question came through")
		return driver.Reply{}
	})
	p := at.start(spec, out)
	out.await(t, "ready")
	send := func(b []byte) string {
		c, err := unixsock.Dial(ctxOf(t), spec.Ask.Dir, AskSocket)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience))
		c.Write(b)
		_, answer, _ := readFrame(bufio.NewReader(c))
		return string(answer)
	}
	for _, b := range [][]byte{appendFrame(nil, kQuestion, []byte("may I")), []byte("garbage and more"), appendFrame(nil, kKill, seqBytes(1))} {
		if got := send(b); strings.Contains(got, `"exit":0`) {
			t.Errorf("%q: %s", b, got)
		}
	}
	for range 10 * maxAsking { // they say nothing, and stay
		c, err := unixsock.Dial(ctxOf(t), spec.Ask.Dir, AskSocket)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	if err := p.Kill(ctxOf(t)); err != nil {
		t.Error(err)
	}
	wait(t, p)
}

// A start that is refused leaves nothing, and nothing is written over.
func TestAskDir(t *testing.T) {
	bothKinds(t, func(t *testing.T, at *keeperAt) {
		open, taken, link := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "link")
		os.Chmod(open, 0o755)
		os.Chmod(taken, 0o700)
		os.WriteFile(filepath.Join(taken, "gate.js"), []byte("mine"), 0o600)
		os.Symlink(taken, link)
		for name, ask := range map[string]*driver.Ask{
			"relative":         {Dir: "x"},
			"open to others":   {Dir: open},
			"a link":           {Dir: link},
			"a file is there":  {Dir: taken, Files: []driver.File{{Name: "first"}, {Name: "gate.js"}}},
			"a name with path": {Dir: taken, Files: []driver.File{{Name: "../gate.js"}}},
			"the socket":       {Dir: taken, Files: []driver.File{{Name: AskSocket}}},
		} {
			spec := prog(t, "sleep")
			spec.Ask = ask
			p, err := Start(ctxOf(t), at.dial(), spec, at.sink(), &ClientOptions{LocalSpool: at.local})
			if err == nil {
				t.Errorf("%s: started", name)
				p.Kill(ctxOf(t))
			}
		}
		ents, _ := os.ReadDir(taken)
		if b, _ := os.ReadFile(filepath.Join(taken, "gate.js")); len(ents) != 1 || string(b) != "mine" {
			t.Errorf("%v %q", ents, b)
		}
	})
}

// The program says no whenever it has not been told yes.
func TestAskProgram(t *testing.T) {
	dir := t.TempDir()
	os.Chmod(dir, 0o700)
	run := func(stdout io.Writer) (int, string) {
		var errs strings.Builder
		code := askMain([]string{dir}, strings.NewReader("q"), stdout, &errs)
		return code, errs.String()
	}
	if code, text := run(io.Discard); code != 2 || text == "" {
		t.Errorf("no socket: %d %q", code, text)
	}
	for _, answer := range []string{
		"", "garbage", string(appendFrame(nil, kReply, []byte(`{}`))), string(appendFrame(nil, kReply, []byte(`{"exit":"0"}`))),
		string(appendFrame(nil, kReply, []byte(`{"exit":0`))), string(appendFrame(nil, kExit, []byte(`{"exit":0}`))),
	} {
		l, err := unixsock.Listen(dir, AskSocket)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			readFrame(bufio.NewReader(c))
			io.WriteString(c, answer)
			c.Close()
		}()
		if code, text := run(io.Discard); code != 2 || text == "" {
			t.Errorf("%q: %d %q", answer, code, text)
		}
		l.Close()
	}
	l, err := unixsock.Listen(dir, AskSocket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		readFrame(bufio.NewReader(c))
		c.Write(appendFrame(nil, kReply, []byte(`{"exit":0,"stdout":"e30="}`)))
	}()
	if code, _ := run(fullDisk{}); code != 2 {
		t.Errorf("a yes that could not be printed: %d", code)
	}
	if code := askMain(nil, strings.NewReader(""), io.Discard, io.Discard); code != 2 {
		t.Errorf("no argument: %d", code)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// When the client is gone, or the command over, the answer is no at once.
func TestAskWithoutOwner(t *testing.T) {
	owner := make(chan struct{})
	dir := t.TempDir()
	os.Chmod(dir, 0o700)
	out := newOutbox(io.Discard, func(b []byte) []byte { return b })
	s, err := openAsks(&driver.Ask{Dir: dir}, out, owner)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	close(owner)
	if r := s.ask([]byte("q")); r.Exit != 2 || !strings.Contains(string(r.Stderr), "supervises") {
		t.Errorf("%+v", r)
	}
	s.over()
	if r := s.ask([]byte("q")); r.Exit != 2 {
		t.Errorf("%+v", r)
	}
}

// A keeper that passes on more than it may is not believed.
func TestAskTooMany(t *testing.T) {
	client, server := Pipe()
	go io.Copy(io.Discard, server)
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	go func() {
		server.Write(appendFrame(nil, kStarted, versionByte, []byte(`{"pid":1}`)))
		for i := range uint32(2*maxAsking + 1) {
			server.Write(appendFrame(nil, kQuestion, seqBytes(i), []byte("q")))
		}
	}()
	out := judge{newSink(), func([]byte) driver.Reply { <-never; return driver.Reply{} }}
	p, err := Start(ctxOf(t), client, &driver.Spec{Argv: []string{"x"}}, out, nil)
	if err != nil {
		t.Fatal(err)
	}
	if e := wait(t, p); e.Reason != driver.Lost || !strings.Contains(e.Detail, "more questions") {
		t.Errorf("%+v", e)
	}
}
