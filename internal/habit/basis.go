package habit

// Basis is what the expected end of an attempt rests on.
type Basis int8

// What it may rest on.
const (
	ByNothing  Basis = iota
	ByLimit          // its time limit
	ByDeclared       // its declared duration
	ByMeasured       // earlier jobs of its name
	ByReported       // the steps that it reports
	ByStop           // it was told to stop
	ByUsual          // the usual part of its declared duration
	ByPart           // the usual part of its time limit
)

// Text says it in words.
func (b Basis) Text() string {
	switch b {
	case ByLimit:
		return "the time limit"
	case ByDeclared:
		return "the declared duration"
	case ByMeasured:
		return "the run times of earlier jobs of that name"
	case ByReported:
		return "the reported steps"
	case ByUsual:
		return "the usual part of the declared duration"
	case ByPart:
		return "the usual part of the time limit"
	case ByStop:
		return "its stop"
	}
	return "nothing"
}
