package fakeagent

func newWire(a *agent) wire {
	switch a.name {
	case "codex":
		return newCodex(a)
	case "pi":
		return newPi(a)
	case "gemini":
		return newGemini(a)
	case "qwen":
		return newQwen(a)
	}
	return newClaude(a)
}
