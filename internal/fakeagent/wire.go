package fakeagent

func newWire(a *agent) wire {
	switch a.name {
	case "codex":
		return newCodex(a)
	case "copilot":
		return newCopilot(a)
	case "grok":
		return newGrok(a)
	case "pi":
		return newPi(a)
	case "gemini":
		return newGemini(a)
	case "qwen":
		return newQwen(a)
	}
	return newClaude(a)
}
