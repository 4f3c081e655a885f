package cell

import "github.com/combsched/comb/internal/base/budget"

// scratch is memory that searches use again. Marks hold the epoch of the search that set them.
type scratch struct {
	epoch          uint32
	budget         int      // steps of exhaust that are left, for all searches of one request
	steps          int      // steps of exhaust taken so far, of all searches
	asked          int      // searches so far
	taken          []uint32 // by leaf: when it was placed
	victim         []uint32 // by allocation: when it was made a victim
	listed         []uint32 // by allocation: the last list it was put in
	list           uint32   // number of the present list
	avail          []int32  // by cell within a node: leaves that the gang may take
	holders        []holder
	bins           []bin
	search         search   // the one that is running
	uncountedOn    []uint32 // by node-level cell: the search in which preemptsUncounted marked it
	uncountedNodes []CellID // those nodes, now
	request        Request
	one            [1]part
	tasks          []task
	binds          []Bind
	rooms          []nodeRoom
	sources        []source
	// Memory for what placements are made of: for many at once, none of it used twice.
	newLeaves  []LeafID
	newDevices []int32
	newTasks   []Task
	newBinds   []Bind
	// Of groups: by cell, the place of its group, and in which round that was noted.
	group   []int32
	inGroup []uint32
	round   uint32
	groups  []group
}

// part is the members of a gang with one set of SKUs and one pin. They go to one chain if they
// can, else to several. Parts of any SKU come first.
type part struct {
	skus   []TypeName
	pinned PinnedID
	alike  bool   // if it needs several chains, they are of one SKU
	tasks  []task // largest first
	total  int32
}

type task struct {
	index  int32 // in the gang's order
	leaves int32
}

type placedTask struct {
	index  int32
	leaves []LeafID
}

// group is the bins below one cell.
type group struct {
	anc   CellID
	avail int32 // leaves that the gang could take
	fits  int32 // tasks of the part's smallest size that fit, bin by bin
}

// source is the free cells of one level in a container.
type source struct {
	space int32
	level Level
}

// nodeRoom is a node with the leaves that the gang could take of it.
type nodeRoom struct {
	node   CellID
	own    int32 // in the VC's bound parts
	room   int32 // with what the VC could bind there
	idle   int32 // as if the VC could bind all that is free there
	serves int32 // leaves of the part's tasks that fit into room
}

// division is what is known about the chains, and a way to divide the lots among them.
type division struct {
	s     *search
	sizes []size
	asked []answer
	lots  []lot
	has   [][]int32 // by chain: tasks of each size that it was given
	seen  budget.SeenStates
	steps int
	asks  int
}

// lot is what is divided among chains at once: the tasks of one part and size; or, where a gang
// must stay close together, all tasks of a part, which go to one chain.
type lot struct {
	p     *part
	each  []int32 // tasks of each size in one unit
	left  int32   // units that no chain has yet
	given []int32 // by chain: units that it has
	last  int     // the last chain that it may go to
	may   int     // how many chains it may go to
}

// answer says whether a chain can take so many tasks of each size.
type answer struct {
	chain   int16
	tasks   []int32
	ok      bool
	reached Bounds // for a no: the bounds that may be its cause
}

// size is tasks that are alike to a chain.
type size struct {
	pinned PinnedID
	leaves int32
}

// bin is a node, or the parts of a node that are a VC's preassigned cells below node level. A
// task never spans bins.
type bin struct {
	cell        CellID   // the node-level cell
	place       int32    // its place in the index: among equal bins the lowest comes first
	parts       []CellID // the VC's cells in it; nil is the whole node
	avail       int32    // leaves that this gang could take
	idle        int32    // of these, leaves that are free
	preemptible int32    // preemptible leaves
	used        int32    // leaves of others that are not preemptible
}

// holder is an allocation that may be preempted, with its leaves in one bin.
type holder struct {
	alloc  AllocID
	leaves int32
	cost   Cost
}

// search is one Place. All that it changes in the cluster is in bound.
type search struct {
	c           *Cluster
	r           *Request
	t           *scratch
	bound       []RootID  // roots it bound tentatively, in order
	victims     []AllocID // victims so far
	placed      []placedTask
	countsExact bool              // the counts of cells are what this gang could take
	prefers     bool              // some nodes are preferred
	restricted  bool              // not every node is allowed
	looked      bool              // uncounted, and the scratch's uncountedOn, are known
	uncounted   bool              // holders may be preempted that do not count as preemptible
	roomy       bool              // how candidates for binding are ranked (see candidate)
	steps       int               // bindings tried by exhaust
	tried       budget.SeenStates // sets of bindings that exhaust has tried
	ways        int               // orders in which parts were tried
	late        int               // times grow was tried after the steps had ended
	reached     Bounds            // bounds that were reached
	avail       []int32           // what scan counted
	gang        []part            // its parts
	division    *division         // what is known about chains; nil until a part did not fit into one
}

func (c *Cluster) scratch() *scratch {
	if c.tmp == nil {
		c.tmp = &scratch{taken: make([]uint32, len(c.f.Leaves))}
		for i := range c.f.Chains {
			c.tmp.avail = make([]int32, max(len(c.tmp.avail), len(c.f.Chains[i].inside)))
		}
	}
	t := c.tmp
	if t.epoch++; t.epoch == 0 {
		clear(t.taken)
		clear(t.victim)
		clear(t.uncountedOn)
		t.epoch = 1
	}
	if n := len(c.allocs); len(t.victim) < n {
		t.victim = append(t.victim, make([]uint32, n+n/2+16-len(t.victim))...)
	}
	return t
}
