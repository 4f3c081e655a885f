package cell

import "github.com/combsched/comb/internal/base/budget"

// scratch is memory that searches use again. Marks hold the number of the search
// that set them.
type scratch struct {
	epoch   uint32
	budget  int      // steps of exhaust that are left, of all searches for one request
	steps   int      // that were taken, of all there ever were
	asked   int      // searches, of all there ever were
	taken   []uint32 // by leaf
	lifted  []uint32 // by allocation
	listed  []uint32 // by allocation: the list in which it was put last
	list    uint32   // the present one
	avail   []int32  // by cell within a node
	holders []holder
	bins    []bin
	search  search   // the one that runs
	lifting []uint32 // of node-level cells: when some holder there that does not count as soft may be lifted
	marked  []CellID // those nodes, now
	request Request
	one     [1]part
	tasks   []task
	binds   []Bind
	rooms   []nodeRoom
	sources []source
	// what placements are made of: memory for many at once, none of it used twice
	newLeaves  []LeafID
	newDevices []int32
	newTasks   []Task
	newBinds   []Bind
	// of groups: by cell, where its group stands and in which round that was said
	group   []int32
	inGroup []uint32
	round   uint32
	groups  []group
}

// part is the members of a gang with one set of SKUs and one pin; they go to one
// chain when they can, else to several. Those of any SKU come first.
type part struct {
	skus   []TypeName
	pinned PinnedID
	alike  bool   // where several chains are needed they are of one SKU
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

// group is the bins under one cell.
type group struct {
	anc   CellID
	avail int32 // leaves
	fits  int32 // of the part's smallest tasks
}

// source is the free cells of one level of a container.
type source struct {
	space int32
	level Level
}

// nodeRoom is a node with what the gang could take of it.
type nodeRoom struct {
	node   CellID
	own    int32 // of the VC's bound parts
	room   int32 // with what it could have bound
	idle   int32 // with all that is idle there and not others', however much it could have bound
	serves int32 // leaves of the part's tasks
}

// division is all that is known about the chains, and a way to divide the lots.
type division struct {
	s     *search
	sizes []size
	asked []answer
	lots  []lot
	has   [][]int32 // by chain, tasks of each size
	seen  budget.Memory
	steps int
	asks  int
}

// lot is what is divided among chains: tasks of one part and size; or all tasks of a
// part, which go to one chain, where a gang must stay close together.
type lot struct {
	p     *part
	each  []int32 // how many tasks of each size go together
	left  int32   // how many times, that no chain has yet
	given []int32 // how many times each chain has got them
	last  int     // of the chains that it may go to
	may   int     // how many these are
}

// answer is whether a chain can take so many tasks of each size.
type answer struct {
	chain int16
	tasks []int32
	ok    bool
	hit   Bounds // a no that these bounds may have to do with
}

// size is tasks that are alike to a chain.
type size struct {
	pinned PinnedID
	leaves int32
}

// bin is a node, or the parts of a node that a VC's preassigned cells below node
// level are: tasks never span bins.
type bin struct {
	cell  CellID   // the node-level cell
	place int32    // in the index: which of equal ones comes first
	parts []CellID // the VC's cells in it, none for the whole node
	avail int32    // leaves that this gang could take
	idle  int32    // of these, free already
	soft  int32    // leaves in opportunistic use, or left soon
	used  int32    // leaves of others
}

// holder is an allocation that may be lifted, with its leaves in one bin.
type holder struct {
	alloc  AllocID
	leaves int32
	cost   Cost
}

// search is one Place. Everything it changes in the cluster is in bound.
type search struct {
	c        *Cluster
	r        *Request
	t        *scratch
	bound    []RootID  // tentatively bound, in order
	victims  []AllocID // lifted so far
	placed   []placedTask
	plain    bool          // what cells count is what this gang could take
	fond     bool          // some nodes are preferred
	picky    bool          // not every node will do
	looked   bool          // lifts, and the scratch's lifting, are known
	lifts    bool          // holders may be lifted whose leaves do not count as soft
	roomy    bool          // how candidates for binding are ranked
	steps    int           // binds tried by exhaust
	tried    budget.Memory // what it had bound
	ways     int           // orders in which parts were tried
	late     int           // tries once no steps were left
	hit      Bounds        // a search was cut short, or not all victims were looked at
	avail    []int32       // what scan counted
	gang     []part        // all of it
	division *division     // what is known of chains; nil as long as no part was too much for one
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
		clear(t.lifted)
		clear(t.lifting)
		t.epoch = 1
	}
	if n := len(c.allocs); len(t.lifted) < n {
		t.lifted = append(t.lifted, make([]uint32, n+n/2+16-len(t.lifted))...)
	}
	return t
}
