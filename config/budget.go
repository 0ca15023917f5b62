package config

import (
	"errors"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/rein-run/rein/meter"
	"github.com/rein-run/rein/watch"
)

// ParseTokens reads a number of tokens as users write it: "50000", "200k",
// "1.5M", or "none", which is 0. k is a thousand, M a million.
func ParseTokens(s string) (int64, error) {
	if s == "none" {
		return 0, nil
	}
	digits, factor := s, 1.0
	if n := len(s); n > 0 {
		switch s[n-1] {
		case 'k', 'K':
			digits, factor = s[:n-1], 1e3
		case 'm', 'M':
			digits, factor = s[:n-1], 1e6
		}
	}
	n, err := strconv.ParseFloat(digits, 64)
	n *= factor
	if err != nil || !plainNumber(digits) || !(n >= 1 && n < 1<<53) {
		return 0, errors.New(show(s) + " is not a number of tokens: write 50000, 200k or 2M, or none")
	}
	return int64(n), nil
}

// plainNumber: ParseFloat reads 0x1p4, 1_000, Inf and 1e9 too.
func plainNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789.") == ""
}

func formatTokens(n int64) string {
	switch {
	case n > 0 && n%1_000_000 == 0:
		return strconv.FormatInt(n/1_000_000, 10) + "M"
	case n > 0 && n%1000 == 0:
		return strconv.FormatInt(n/1000, 10) + "k"
	}
	return formatCount(n)
}

func setTokens(c *Config, v given) error {
	n, err := ParseTokens(v.text)
	if err != nil {
		return v.errorf("%s: %v", v.key, err)
	}
	if v.from.Source == Project {
		if err := withinLimit(c, "max_tokens", n, c.Limits.Tokens, formatTokens, v); err != nil {
			return err
		}
	}
	c.Limits.Tokens = n
	return nil
}

// parseUSD reads "2.50" or "$2.50".
func parseUSD(s string) (float64, bool) {
	s = strings.TrimPrefix(s, "$")
	usd, err := strconv.ParseFloat(s, 64)
	return usd, err == nil && plainNumber(s) && usd < 1e9
}

func formatCost(usd float64) string {
	if usd == 0 {
		return "none"
	}
	return strconv.FormatFloat(usd, 'f', -1, 64)
}

func setCost(c *Config, v given) error {
	var usd float64
	if v.text != "none" {
		var ok bool
		if usd, ok = parseUSD(v.text); !ok || usd == 0 {
			return v.errorf("%s: %s is not an amount of money: write 2.50, which is USD, or none", v.key, show(v.text))
		}
	}
	if v.from.Source == Project {
		if err := withinLimit(c, "max_cost", usd, c.Limits.CostUSD, formatCost, v); err != nil {
			return err
		}
	}
	c.Limits.CostUSD = usd
	return nil
}

func setSubagents(c *Config, v given) error {
	n := 0
	if v.text != "none" {
		var err error
		if n, err = strconv.Atoi(v.text); err != nil || n <= 0 {
			return v.errorf("%s: %s is not a number of sub-agents: write 10, or none", v.key, show(v.text))
		}
	}
	if v.from.Source == Project {
		if err := withinLimit(c, "max_subagents", int64(n), int64(c.Limits.Subagents), formatCount, v); err != nil {
			return err
		}
	}
	c.Limits.Subagents = n
	return nil
}

// maxRetries bounds what a typing error can spend.
const maxRetries = 100

func setRetries(c *Config, v given) error {
	n := 0
	if v.text != "none" && v.text != "0" {
		var err error
		if n, err = strconv.Atoi(v.text); err != nil || n < 0 || n > maxRetries {
			return v.errorf("%s: %s is not a number of retries: write 0 to %d", v.key, show(v.text), maxRetries)
		}
	}
	c.Retries = n
	return nil
}

func setLimitWait(c *Config, v given) error {
	d, err := watch.Parse(v.text)
	if err != nil {
		return v.errorf("%s: %s", v.key, strings.NewReplacer("switch the clock off", "wait for none", "90s, 5m or 1h30m", "30m or 6h").Replace(clockTrouble(v.text)))
	}
	c.LimitWait = max(d, 0) // none
	return nil
}

// price reads one section below prices.
func (r *reader) price(model string, value ast.Node, v given) error {
	var p meter.Price
	err := r.each(value, v.from, "prices."+model+".", func(key string, value ast.Node, v given) error {
		field := map[string]*float64{
			"input": &p.Input, "output": &p.Output, "cache_read": &p.CacheRead, "cache_write": &p.CacheWrite,
		}[key]
		if field == nil {
			return v.errorf("unknown key %s%s", show(v.key), nearest(key, []string{"input", "output", "cache_read", "cache_write"}))
		}
		if err := v.fill(value); err != nil {
			return err
		}
		usd, ok := parseUSD(v.text)
		if !ok {
			return v.errorf("%s: %s is not a price: write USD per million tokens, 2.50 for example", show(v.key), show(v.text))
		}
		*field = usd
		return nil
	})
	if err != nil {
		return err
	}
	if err := p.Validate(); err != nil {
		return v.errorf("%s: %v", show(v.key), err)
	}
	if r.c.Prices == nil {
		r.c.Prices = meter.Prices{}
	}
	r.c.Prices[model] = p
	r.c.remember(v.key, v.from)
	return nil
}
