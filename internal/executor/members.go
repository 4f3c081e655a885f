package executor

// Membership is which tasks of a job run: what the file of its members holds, wherever they run.
// Version rises with each change.
type Membership struct {
	Version int64    `json:"version"`
	Members []Member `json:"members"`
}

// Member is one of them.
type Member struct {
	Role    string             `json:"role"`
	Index   int32              `json:"index"`
	Host    string             `json:"host"`
	Ports   map[string][]int32 `json:"ports,omitempty"`
	Leaving bool               `json:"leaving,omitempty"` // it was asked to stop
}
