package agent

import (
	"strconv"
	"strings"
	"time"
)

// Classify sorts a failure by the HTTP status, when there was one, and by the
// agent's words. status 0 means that it is not known; one that the text tells
// ("429 …", "unexpected status 401 …") is found.
//
// Billing and window limits come as 429 like any other rate limit; a retry of
// them is useless, so the words are looked at before the number.
func Classify(status int, text string) Class {
	c, _ := classify(status, text)
	return c
}

// Fail makes a Failure of the agent's words: class, status and, for a rate
// limit whose words tell when it ends, Until.
func Fail(status int, text string) *Failure {
	class, status := classify(status, text)
	f := &Failure{Class: class, Status: status, Text: Clip(text)}
	if class == RateLimit || class == Billing {
		// A quota that is used up until a time is a limit, whatever it is called:
		// waiting helps.
		if f.Until = until(text, time.Now(), time.Local); f.Until != nil {
			f.Class = RateLimit
		}
	}
	return f
}

func classify(status int, text string) (Class, int) {
	if len(text) > 4096 {
		text = text[:4096]
	}
	t := strings.ToLower(strings.ReplaceAll(text, "’", "'"))
	if status == 0 {
		if m := statusInText().FindStringSubmatch(t); m != nil {
			status, _ = strconv.Atoi(m[1] + m[2])
		}
	}
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(t, w) {
				return true
			}
		}
		return false
	}
	switch {
	case status == 402,
		has("credit balance is too low", "insufficient_quota", "quota exceeded", "exceeded your current quota", "billing", "payment required",
			"out of credits", "spend limit", "out of usage credits", "out of extra usage", "needs usage credits"):
		return Billing, status
	case status == 401, status == 403,
		has("invalid api key", "not logged in", "please run /login", "authentication_failed", "authentication_error", "unauthorized",
			"oauth token has expired", "incorrect api key", "invalid x-api-key", "no api key found"):
		return Auth, status
	case status == 429,
		has("rate limit", "rate_limit", "rate-limited", "usage limit", "session limit", "weekly limit", "limit reached", "limit will reset",
			"too many requests", "resource_exhausted"),
		hitLimit().MatchString(t):
		return RateLimit, status
	case status >= 500 && status <= 599,
		has("overloaded", "high demand", "server_error", "internal server error", "service unavailable", "bad gateway",
			"gateway timeout", "temporarily unavailable", "at capacity"):
		return Overloaded, status
	case status == 408,
		has("connection refused", "econnrefused", "econnreset", "enotfound", "etimedout", "connection reset", "connection error",
			"other side closed", "socket hang up", "network error", "stream disconnected", "fetch failed", "idle timeout waiting",
			"connection closed", "unable to connect", "dns error", "transport error",
			"eai_again", "getaddrinfo", "ehostunreach", "enetunreach", "epipe", "no such host", "network is unreachable", "tls handshake",
			"request timed out", "connection timed out", "error sending request"):
		return Network, status
	case has("maximum number of turns", "maximum budget", "max_turns", "budget_exhausted"):
		return Limit, status
	case has("interrupted by user", "operation was aborted", "aborted_streaming", "aborted_tools"):
		return Cancelled, status
	case unknownCommand().MatchString(t):
		return UnknownCommand, status
	}
	return Other, status
}

// A status is believed where a CLI writes one: at the beginning ("429 …"),
// or after a word that says so. Any three digits elsewhere may be a count.
var statusInText = lazy(`^([45]\d\d)\b|(?:status:?|error:?|http|code:?)[ :=(]{0,2}([45]\d\d)\b`)

// "You've hit your session limit · resets 10:30pm", claude 2.1.215; a limit that
// is hit in another sense ("hit your recursion limit …") has a status of its own.
var hitLimit = lazy(`\bhit your (?:[a-z0-9.-]+ ){0,2}limit\b`)

// The words of claude for a slash command or a skill that there is not; as a
// result, with no request made, and not as an error.
var unknownCommand = lazy(`^unknown (?:slash command|command|skill)\b[: ]`)
