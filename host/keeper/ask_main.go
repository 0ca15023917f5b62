package keeper

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/rein-run/rein/host/driver"
	"github.com/rein-run/rein/internal/unixsock"
)

// askVerb is the argument that makes the keeper's program ask.
const askVerb = "ask"

// askMain is the body of `rein keeper ask DIR`, which an agent CLI starts as
// its pre-tool hook: it passes what is on stdin to the keeper that listens in
// DIR, and prints and exits with what comes back.
//
// It fails closed: what cannot be asked, or is not answered within askTime, is
// refused with exit code 2 and a text on stderr. (2 is also the code with which
// a Go program dies of a panic.)
func askMain(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) != 1 {
		fmt.Fprintln(stderr, "rein: ask takes one argument, the directory of the socket; refused")
		return driver.RefusedCode
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), askTime, errors.New("no answer within "+askTime.String()))
	defer cancel()
	type result struct {
		r   driver.Reply
		err error
	}
	done := make(chan result, 1)
	go func() { // a read of stdin cannot be interrupted everywhere
		r, err := ask(ctx, args[0], stdin)
		done <- result{r, err}
	}()
	var got result
	select {
	case got = <-done:
	case <-ctx.Done():
		got.err = context.Cause(ctx)
	}
	if got.err != nil {
		got.r = driver.Refuse("rein: the question could not be asked: " + got.err.Error())
	}
	// An answer that the CLI does not get is no answer: it would take an exit
	// code of 0 for yes.
	if _, err := stdout.Write(got.r.Stdout); err != nil {
		return driver.RefusedCode
	}
	if _, err := stderr.Write(got.r.Stderr); err != nil {
		return driver.RefusedCode
	}
	return got.r.Exit
}

func ask(ctx context.Context, dir string, stdin io.Reader) (r driver.Reply, err error) {
	q, err := io.ReadAll(io.LimitReader(stdin, maxQuestion+1))
	if err != nil {
		return r, err
	}
	if len(q) > maxQuestion {
		return r, fmt.Errorf("it is longer than %d bytes", maxQuestion)
	}
	conn, err := unixsock.Dial(ctx, dir, AskSocket)
	if err != nil {
		return r, err
	}
	defer conn.Close()
	if d, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(d)
	}
	if _, err := conn.Write(appendFrame(nil, kQuestion, q)); err != nil {
		return r, err
	}
	k, b, err := readFrame(bufio.NewReader(conn))
	switch {
	case errors.Is(err, io.EOF):
		return r, errors.New("the keeper closed the connection")
	case err != nil:
		return r, err
	case k != kReply:
		return r, fmt.Errorf("%w: the answer is %q", errFrame, byte(k))
	}
	// Exit is a pointer here: an answer without one must not become a yes.
	var m struct {
		Exit   *int   `json:"exit"`
		Stdout []byte `json:"stdout"`
		Stderr []byte `json:"stderr"`
	}
	if err := json.Unmarshal(b, &m); err != nil || m.Exit == nil {
		return r, errors.New("the answer could not be read")
	}
	return driver.Reply{Exit: *m.Exit, Stdout: m.Stdout, Stderr: m.Stderr}, nil
}
