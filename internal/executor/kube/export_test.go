package kube

// CloseSpaces looks which namespaces are needed no more, as is done each half minute.
func CloseSpaces(e *Executor) { e.spaces.close() }
