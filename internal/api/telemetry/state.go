package telemetry

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/combsched/comb/internal/core"
	"github.com/combsched/comb/internal/core/model"
)

// state collects metrics of the cluster when Prometheus asks.
type state struct{ o Options }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	info         = desc("comb_info", "The server's version.", "version")
	lastEvent    = desc("comb_last_event", "The number of the last event of the journal.")
	jobs         = desc("comb_jobs", "Jobs that have not ended, by virtual cluster and state.", "vc", "state")
	vcGuaranteed = desc("comb_vc_guaranteed_gpus", "GPUs, or CPU slots, that a virtual cluster is guaranteed.", "vc", "sku")
	vcUsed       = desc("comb_vc_used_gpus", "Of the guarantee, what its jobs use.", "vc", "sku")
	vcBorrowed   = desc("comb_vc_borrowed_gpus", "What its opportunistic jobs use.", "vc", "sku")
	vcLent       = desc("comb_vc_lent_gpus", "What it lends to opportunistic jobs of others.", "vc", "sku")
	vcBad        = desc("comb_vc_bad_gpus", "Of its cells, what is out of service.", "vc", "sku")
	vcHeld       = desc("comb_vc_held_by_others_gpus", "Of its cells, what others keep from new work.", "vc", "sku")
	nodeUp       = desc("comb_node_up", "Whether a node answers.", "node")
	nodeOut      = desc("comb_node_out_of_placement", "Whether a node is cordoned, drained, suspect or declared dead.", "node", "why")
	nodeGPUs     = desc("comb_node_gpus", "GPUs, or CPU slots, of a node.", "node", "sku", "chain", "state")
	streams      = desc("comb_http_streams", "Open streams of events, logs and builds.")
	keptRemoved  = desc("comb_retention_removed_jobs_total", "Ended jobs whose files were removed since the start.")
	keptFailed   = desc("comb_retention_failures_total", "Times that files could not be removed.")
	keptLines    = desc("comb_retention_forgotten_audit_lines_total", "Lines of the audit log that were forgotten since the start.")
	certificate  = desc("comb_certificate_ends_timestamp_seconds", "When the server's certificate ends.")
	room         = desc("comb_storage_room", "1 while there is room for what is durable; 0: jobs are refused.")
	conditions   = desc("comb_conditions", "Conditions that concern more than one job, such as an API server away.")
	taskGPU      = desc("task_gpu_percent", "How busy the GPUs of a task are, as OpenPAI's exporter names it.", taskLabels...)
	taskGPUMem   = desc("task_gpu_mem_usage_byte", "GPU memory of a task on the fullest of its GPUs.", taskLabels...)
)

var taskLabels = []string{"username", "job_name", "virtual_cluster", "role_name", "task_index"}

// mostJobs bounds the jobs for which tasks have metrics. With more jobs no task has any.
const mostJobs = 5000

// Describe implements prometheus.Collector. The metrics depend on the cluster.
func (s *state) Describe(ch chan<- *prometheus.Desc) { ch <- info }

// Collect implements prometheus.Collector.
func (s *state) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v int64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v))
	}
	gauge(info, 1, s.o.Version)
	if s.o.Streams != nil {
		gauge(streams, float64(s.o.Streams()))
	}
	if s.o.Kept != nil {
		k := s.o.Kept()
		counter(keptRemoved, k.Removed)
		counter(keptFailed, k.Failed)
		counter(keptLines, k.Lines)
	}
	if s.o.Certificate != nil {
		if at := s.o.Certificate(); !at.IsZero() {
			gauge(certificate, float64(at.Unix()))
		}
	}
	if s.o.Conditions != nil {
		gauge(conditions, float64(s.o.Conditions()))
	}
	if s.o.Room != nil {
		gauge(room, truth(s.o.Room() == nil))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var seq uint64
	var vcs []model.VCStatus
	var nodes []model.NodeStatus
	var live []model.JobStatus
	err := s.o.Replica.Read(ctx, 0, func(st *core.State) {
		seq, vcs, nodes = st.Seq(), st.VCs(), st.Nodes()
		if st.Size() <= mostJobs {
			live = st.Jobs()
		}
	})
	if err != nil {
		ch <- prometheus.NewInvalidMetric(lastEvent, err)
		return
	}
	gauge(lastEvent, float64(seq))
	tellVCs(vcs, gauge)
	tellNodes(nodes, gauge)
	for i := range live {
		tasks(&live[i], gauge)
	}
}

// gauge emits one value.
type gauge = func(*prometheus.Desc, float64, ...string)

func tellVCs(vcs []model.VCStatus, gauge gauge) {
	for i := range vcs {
		v := &vcs[i]
		name := string(v.Name)
		gauge(jobs, float64(v.Waiting), name, "waiting")
		gauge(jobs, float64(v.Active), name, "active")
		for k := range v.SKUs {
			u := &v.SKUs[k]
			for d, n := range map[*prometheus.Desc]int32{
				vcGuaranteed: u.Guaranteed, vcUsed: u.Used, vcBorrowed: u.Opportunistic, vcLent: u.Lent,
				vcBad: u.Bad, vcHeld: u.HeldByOthers,
			} {
				gauge(d, float64(n), name, string(u.SKU))
			}
		}
	}
}

func tellNodes(nodes []model.NodeStatus, gauge gauge) {
	for i := range nodes {
		n := &nodes[i]
		name := string(n.Name)
		gauge(nodeUp, truth(n.Up), name)
		for why, is := range map[string]bool{"cordoned": n.Cordoned && n.Drain == 0 && !n.Dead, "draining": n.Drain > 0, "declared dead": n.Dead, "suspect": n.Suspect > 0} {
			gauge(nodeOut, truth(is), name, why)
		}
		for k := range n.SKUs {
			u := &n.SKUs[k]
			counts := map[string]int32{"total": u.Total, "used": u.Used, "bad": u.Bad, "held by others": u.HeldByOthers}
			for state, count := range counts {
				gauge(nodeGPUs, float64(count), name, string(u.SKU), string(u.Chain), state)
			}
		}
	}
}

// tasks emits the utilization of the GPUs of a job's tasks.
func tasks(j *model.JobStatus, gauge gauge) {
	for k := range j.Tasks {
		t := &j.Tasks[k]
		if t.State != model.TaskRunning || t.Progress == nil || t.Progress.Use == nil {
			continue
		}
		labels := []string{string(j.User), string(j.Name), string(j.VC), t.Role, strconv.Itoa(int(t.Index))}
		gauge(taskGPU, float64(t.Progress.Use.Util)/10, labels...)
		gauge(taskGPUMem, float64(t.Progress.Use.MemoryMB<<20), labels...)
	}
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
