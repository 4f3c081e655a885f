package executor

// Membership lists the running tasks of a job: it is the content of the file of its members, on
// every executor. Version rises with each change.
type Membership struct {
	Version int64    `json:"version"`
	Members []Member `json:"members"`
}

// Member is one running task of a job.
type Member struct {
	Role    string             `json:"role"`
	Index   int32              `json:"index"`
	Host    string             `json:"host"`
	Ports   map[string][]int32 `json:"ports,omitempty"`
	Leaving bool               `json:"leaving,omitempty"` // it was asked to stop
}
