package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/rein-run/rein/config"
	"github.com/rein-run/rein/host/driver"
)

func (c *runCmd) env(cfg *config.Config) (driver.Env, error) {
	env := driver.Env{}
	files := c.EnvFile
	if cfg != nil && cfg.EnvFile != "" {
		files = append([]string{cfg.EnvFile}, files...)
	}
	for _, name := range files {
		if name == "-" {
			return nil, usage("--env-file -: stdin is /dev/stdin here")
		}
		b, err := readAtMost(name, maxEnvFile)
		if err != nil {
			return nil, usage("--env-file: %s", err)
		}
		if err := parseEnvFile(name, b, env); err != nil {
			return nil, err
		}
	}
	for _, e := range c.Env {
		k, v, ok := strings.Cut(e, "=")
		if !ok {
			if v, ok = os.LookupEnv(k); !ok {
				return nil, usage("--env %s: it is not set here; write --env %s=VALUE", k, k)
			}
		}
		env[k] = v
	}
	return env, nil
}

// maxEnvFile is more than the kernel takes in all variables together.
const maxEnvFile = 4 << 20

// readAtMost reads a file that may be a pipe or a device: <(…) is a usual thing
// to write here, and /dev/zero has no end.
func readAtMost(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s: longer than %d MiB", name, limit>>20)
	}
	return b, err
}

// parseEnvFile reads NAME=VALUE lines: blank lines and those that begin with #
// are skipped, "export " in front is allowed, one pair of quotes around the
// value is taken off, and nothing is expanded. Errors never show a value.
func parseEnvFile(name string, b []byte, env driver.Env) error {
	for i, line := range bytes.Split(b, []byte("\n")) {
		s := strings.TrimSpace(strings.TrimSuffix(string(line), "\r"))
		if s == "" || s[0] == '#' {
			continue
		}
		k, v, ok := strings.Cut(strings.TrimSpace(strings.TrimPrefix(s, "export ")), "=")
		k = strings.TrimSpace(k)
		if !ok || k == "" || strings.ContainsAny(k, " \t\x00") {
			return usage("%s:%d: not a NAME=VALUE line", name, i+1)
		}
		v = strings.TrimSpace(v)
		if n := len(v); n >= 2 && (v[0] == '"' || v[0] == '\'') && v[n-1] == v[0] {
			v = v[1 : n-1]
		}
		env[k] = v
	}
	return nil
}
