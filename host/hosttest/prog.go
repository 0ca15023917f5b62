package hosttest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// word is what tells a test binary to be the helper program. It is an argument
// and no variable because some of the program's children have no environment.
const word = "hosttest-prog"

// longest bounds the life of every process of the helper program, so that a
// test binary which crashed leaves nothing behind for long.
const longest = 3 * time.Minute

// Main turns the calling test binary into the helper program when it was
// started as such, and returns otherwise. Call it first in TestMain; where the
// command runs the same binary then serves as Harness.Prog.
//
// In the caller it sets GORACE, unless it is set: with the race detector every
// helper and keeper would else sleep for a second before it exits
// (atexit_sleep_ms), which is the time of the whole kit many times over.
func Main() {
	if len(os.Args) > 1 && os.Args[1] == word {
		os.Exit(Prog(os.Args[2:]))
	}
	if _, set := os.LookupEnv("GORACE"); !set {
		os.Setenv("GORACE", "atexit_sleep_ms=0")
	}
}

// Prog is the helper program: args are a mark and the steps to take, one after
// another. It needs no shell and no other program. Its exit code is 0 unless a
// step says otherwise, 99 when a step fails.
//
//	out=TEXT err=TEXT      write to stdout, stderr
//	args                   write the remaining arguments, each ended by NUL, and stop
//	env=NAME               write NAME=value or NAME is unset, and a newline
//	names                  write the names of all variables, a line each
//	pwd                    write the working directory
//	file=PATH,MODE,TEXT    write a file
//	bytes                  write all 256 byte values, and what is not UTF-8
//	flood=N,SEED           write N bytes of a pattern to stdout (N < 0: for ever)
//	eflood=N,SEED          the same to stderr
//	both=N                 write N bytes of pattern 3 to stdout and N of pattern 4 to stderr at the same time
//	blocks=A,B,…           write blocks of these sizes, one write each, of the pattern with seed 1
//	line=N                 write N bytes and a newline
//	cat                    copy stdin to stdout until its end
//	drop                   read stdin to its end
//	read=N                 copy N bytes of stdin to stdout
//	sum                    read stdin to its end, write the count and SHA-256
//	duplex=N               write N bytes of pattern 1 to stdout in step with reading as many from stdin, then as sum to stderr
//	closein closeout closeerr
//	ignore=term|int        from now on
//	trap=term|int          from now on the signal is kept for a later await or tail
//	await=term|int         until the signal arrives
//	tail=N                 until SIGTERM arrives, then write N bytes of pattern 2 in small pieces
//	wait                   until killed (three minutes at most)
//	stop                   SIGSTOP itself
//	die=SIGNAL             by that signal (a number)
//	exit=N
//	child=FLAGS { … }      start a child which takes the steps in braces, go on when it waits;
//	                       flags: setsid, double (its parent exits), bare (no environment), hold (it keeps stdout and stderr), holdout, holderr (one of them)
//	forks=N                N more processes in a tree two deep, all waiting
//	churn=N                N children one after another, each ended when eight younger ones are there (N < 0: for ever)
//	ps                     write pid and name of every live process with this mark
func Prog(args []string) int {
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "hosttest: a mark and steps are needed")
		return 2
	}
	time.AfterFunc(longest, func() { os.Exit(98) })
	p := &program{mark: args[0], ready: readyPipe(), traps: map[string]chan os.Signal{}}
	code, err := p.run(args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "hosttest:", err)
		return 99
	}
	return code
}

type program struct {
	mark  string
	ready *os.File // closed when this process waits; its parent goes on then
	traps map[string]chan os.Signal
}

// readyVar names the descriptor on which a child tells its parent that it has
// reached its first waiting step.
const readyVar = "HOSTTEST_READY"

func (p *program) run(steps []string) (int, error) {
	for i := 0; i < len(steps); i++ {
		name, arg, _ := strings.Cut(steps[i], "=")
		switch name {
		case "args":
			var b bytes.Buffer
			for _, a := range steps[i+1:] {
				b.WriteString(a)
				b.WriteByte(0)
			}
			_, err := os.Stdout.Write(b.Bytes())
			return 0, err
		case "exit":
			return strconv.Atoi(arg)
		case "child":
			end, err := closing(steps, i+1)
			if err != nil {
				return 0, err
			}
			if err := p.child(arg, steps[i+2:end]); err != nil {
				return 0, err
			}
			i = end
		default:
			if err := p.step(name, arg); err != nil {
				return 0, fmt.Errorf("step %s: %w", name, err)
			}
		}
	}
	return 0, nil
}

func closing(steps []string, i int) (int, error) {
	if i >= len(steps) || steps[i] != "{" {
		return 0, fmt.Errorf("a child needs its steps in braces")
	}
	depth := 0
	for ; i < len(steps); i++ {
		switch steps[i] {
		case "{":
			depth++
		case "}":
			depth--
		}
		if depth == 0 {
			return i, nil
		}
	}
	return 0, fmt.Errorf("braces do not match")
}

func (p *program) step(name, arg string) error {
	switch name {
	case "out":
		return second(os.Stdout.WriteString(arg))
	case "err":
		return second(os.Stderr.WriteString(arg))
	case "env":
		line := arg + " is unset\n"
		if v, ok := os.LookupEnv(arg); ok {
			line = arg + "=" + v + "\n"
		}
		return second(os.Stdout.WriteString(line))
	case "names":
		for _, kv := range os.Environ() {
			n, _, _ := strings.Cut(kv, "=")
			fmt.Println(n)
		}
		return nil
	case "pwd":
		// Not os.Getwd: it believes $PWD.
		dir, err := getwd()
		if err != nil {
			return err
		}
		return second(os.Stdout.WriteString(dir))
	case "ask": // question, JSON of the argv that asks
		question, list, _ := strings.Cut(arg, ",")
		var argv []string
		if err := json.Unmarshal([]byte(list), &argv); err != nil {
			return err
		}
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Stdin = strings.NewReader(question)
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); cmd.ProcessState == nil {
			return err
		}
		fmt.Printf("exit %d %q %q", cmd.ProcessState.ExitCode(), out.String(), errs.String())
		return nil
	case "file":
		f := strings.SplitN(arg, ",", 3)
		mode, err := strconv.ParseUint(f[1], 8, 32)
		if err != nil {
			return err
		}
		return os.WriteFile(f[0], []byte(f[2]), os.FileMode(mode))
	case "bytes":
		return second(os.Stdout.Write(everyByte()))
	case "flood":
		return flood(os.Stdout, arg)
	case "eflood":
		return flood(os.Stderr, arg)
	case "both":
		var wg sync.WaitGroup
		wg.Go(func() { flood(os.Stdout, arg+",3") })
		err := flood(os.Stderr, arg+",4")
		wg.Wait()
		return err
	case "blocks":
		src := &pattern{seed: 1}
		for s := range strings.SplitSeq(arg, ",") {
			b := make([]byte, number(s))
			src.Read(b)
			if _, err := os.Stdout.Write(b); err != nil {
				return err
			}
		}
		return nil
	case "line":
		return writeLine(os.Stdout, number(arg))
	case "cat":
		return second(io.Copy(os.Stdout, os.Stdin))
	case "drop":
		return second(io.Copy(io.Discard, os.Stdin))
	case "read":
		return second(io.CopyN(os.Stdout, os.Stdin, number(arg)))
	case "sum":
		return sum(os.Stdout, os.Stdin)
	case "duplex":
		return duplex(number(arg))
	case "closein":
		return os.Stdin.Close()
	case "closeout":
		return os.Stdout.Close()
	case "closeerr":
		return os.Stderr.Close()
	case "ignore":
		signal.Ignore(theSignal(arg))
		return nil
	case "trap":
		p.trap(arg)
		return nil
	case "await":
		c := p.trap(arg)
		p.waiting()
		<-c
		return nil
	case "tail":
		c := p.trap("term")
		p.waiting()
		<-c
		src, left := &pattern{seed: 2}, number(arg)
		b := make([]byte, 1000)
		for left > 0 {
			n := min(left, int64(len(b)))
			src.Read(b[:n])
			if _, err := os.Stdout.Write(b[:n]); err != nil {
				return err
			}
			left -= n
		}
		return nil
	case "wait":
		p.waiting()
		time.Sleep(longest)
		return nil
	case "stop":
		p.waiting()
		return stopSelf()
	case "die":
		return dieBy(syscall.Signal(number(arg)))
	case "forks":
		return forks(int(number(arg)))
	case "churn":
		return p.churn(int(number(arg)))
	case "ps":
		procs, err := scan(p.mark)
		for _, q := range procs {
			if q.PID != os.Getpid() {
				fmt.Println(q.PID, q.Name)
			}
		}
		return err
	}
	return fmt.Errorf("no such step")
}

// waiting tells the parent that every step before the first waiting one is done.
func (p *program) waiting() {
	if p.ready != nil {
		p.ready.Close()
		p.ready = nil
	}
}

func (p *program) trap(name string) chan os.Signal {
	c := p.traps[name]
	if c == nil {
		c = make(chan os.Signal, 1)
		signal.Notify(c, theSignal(name))
		p.traps[name] = c
	}
	return c
}

func second[T any](_ T, err error) error { return err }

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func theSignal(s string) os.Signal {
	if s == "int" {
		return os.Interrupt
	}
	return syscall.SIGTERM
}

func flood(w io.Writer, arg string) error {
	size, seed, _ := strings.Cut(arg, ",")
	n, src := number(size), &pattern{seed: uint64(number(seed))}
	if n < 0 {
		return second(io.Copy(w, onlyReader{src}))
	}
	return second(io.CopyN(w, onlyReader{src}, n))
}

type onlyReader struct{ io.Reader }

// duplex writes and reads in step: it stops reading when nobody takes what it
// writes, and writing when nobody gives it what to read. A program that does
// both at once would forgive a host that does not.
func duplex(n int64) error {
	src, h, read := &pattern{seed: 1}, sha256.New(), int64(0)
	b := make([]byte, 32<<10)
	for left := n; left > 0; left -= int64(len(b)) {
		b = b[:min(left, int64(len(b)))]
		src.Read(b)
		if _, err := os.Stdout.Write(b); err != nil {
			return err
		}
		k, err := io.CopyN(h, os.Stdin, int64(len(b)))
		if read += k; err != nil && err != io.EOF {
			return err
		}
	}
	k, err := io.Copy(h, os.Stdin)
	if err != nil {
		return err
	}
	return second(io.WriteString(os.Stderr, sumLine(read+k, h.Sum(nil))))
}

func writeLine(w io.Writer, n int64) error {
	b := bytes.Repeat([]byte("x"), 1<<16)
	for n > 0 {
		k := min(n, int64(len(b)))
		if _, err := w.Write(b[:k]); err != nil {
			return err
		}
		n -= k
	}
	return second(w.Write([]byte("\n")))
}

func sum(w io.Writer, r io.Reader) error {
	h := sha256.New()
	n, err := io.Copy(h, r)
	if err != nil {
		return err
	}
	return second(io.WriteString(w, sumLine(n, h.Sum(nil))))
}

func sumLine(n int64, hash []byte) string { return fmt.Sprintf("%d %x\n", n, hash) }

// everyByte holds each byte value, truncated and overlong UTF-8, a surrogate,
// U+2028, U+FFFD, CR without LF, and no newline at its end.
func everyByte() []byte {
	b := make([]byte, 0, 300)
	for i := range 256 {
		b = append(b, byte(i))
	}
	return append(b, "\xc3\x28\xe2\x82\xc0\xaf\xed\xa0\x80\xe2\x80\xa8\xef\xbf\xbd\r\x00\xff"...)
}

// pattern is an endless stream of bytes that is known from its seed: every
// eight bytes differ from all before, so that lost, doubled and swapped pieces
// show.
type pattern struct {
	seed uint64
	off  uint64
}

func (p *pattern) Read(b []byte) (int, error) {
	for i := 0; i < len(b); {
		x := p.seed<<48 ^ p.off>>3
		x *= 0x9e3779b97f4a7c15
		x ^= x >> 29
		x *= 0xbf58476d1ce4e5b9
		for k := p.off & 7; k < 8 && i < len(b); k++ {
			b[i] = byte(x >> (8 * k))
			i++
			p.off++
		}
	}
	return len(b), nil
}
