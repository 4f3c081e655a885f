package exit

import "slices"

// Texts that several lines share.
const (
	again    = "nothing: it starts again"
	wait     = again + " by itself"
	readLog  = "read its log (comb job logs), mend the program and submit the job again"
	mendFile = "mend the job file and submit it again"
	fewer    = "start fewer at a time, such as fewer workers of a data loader, and submit the job again"
	tellThem = wait + "; tell an administrator if it goes on"
)

// table is read from the top: why a task was stopped, what the platform saw, what the program
// said last, its exit code. Causes are named as the core names them.
var table = []Entry{
	// What its attempt was stopped for.
	{Code: -101, Phrase: "PodExternalDeleted", Class: Transient, Actor: None, Retry: Always,
		When:  "preempted, migrated, resized, requeued or drained",
		Means: "it made room for other work", Next: wait,
		match: ended("preempted", "migrated", "resized", "requeued", "drained")},
	{Code: -210, Phrase: "StopFrameworkRequested", Class: User, Actor: None, Retry: Never, When: "stopped by a user, or before it had started",
		Means: "a user asked to stop it", Next: "nothing; submit it again if that was a mistake", match: ended("stopped", "withdrawn")},
	{Code: -210, Phrase: "StopFrameworkRequested", Class: Permanent, Actor: Owner, Retry: Never, When: "ended early by its virtual cluster's policy",
		Means: "its virtual cluster's policy saw that it brings nothing more", Next: "look at the loss that it reported", match: ended("early")},
	{Code: -1004, Phrase: "PodDeadlineExceeded", Class: Resource, Actor: Owner, Retry: Never, When: "time limit",
		Means: "it ran for as long as its time limit allows", Next: "submit it again with a longer time limit, or with checkpoints", match: ended("time limit")},
	{Code: -1201, Phrase: "ContainerDockerCreationError", Class: Platform, Actor: Administrator, Retry: Always, When: "start refused",
		Means: "a machine could not start it: its image, a mount or a device failed there", Next: tellThem, match: func(s *Observed) bool {
			return s.End == "refused" || s.Cause == "start refused"
		}},
	{Code: -220, Phrase: "FrameworkAttemptCompletion", Class: Permanent, Actor: None, Retry: Never, When: "stopped since its job had ended",
		Means: "its job had ended by another of its tasks", Next: "look at the task that ended first", match: func(s *Observed) bool {
			return s.End == "completed" && !s.EndedItself
		}},
	// What the platform saw.
	{Code: -101, Phrase: "PodExternalDeleted", Class: Transient, Actor: None, Retry: Always, When: "pod deleted",
		Means: "its pod was deleted in Kubernetes, and not by Comb; its machine is not blamed", Next: wait,
		match: endedByPlatform("pod deleted")},
	{Code: -1001, Phrase: "PodNodeLost", Class: Platform, Actor: Administrator, Retry: Always, When: "supervisor lost, node rebooted, node lost",
		Means: "its machine, or what watched it there, was lost", Next: tellThem, match: func(s *Observed) bool {
			return slices.Contains([]string{"supervisor lost", "node rebooted", "node lost"}, s.Cause) ||
				s.End == "platform"
		}},
	{Code: -101, Phrase: "PodExternalDeleted", Class: Transient, Actor: None, Retry: Always, When: "suspend timed out",
		Means: "it did not let others have their turn in time", Next: wait, match: endedByPlatform("suspend timed out")},
	{Code: -210, Phrase: "StopFrameworkRequested", Class: User, Actor: None, Retry: Never, When: "never started",
		Means: "it was stopped before it had started", Next: "nothing", match: endedByPlatform("never started")},
	{Code: -1200, Phrase: "UserContainerDockerOOMKilled", Class: Resource, Actor: Owner, Retry: Never,
		When:  "out of memory",
		Means: "it needed more memory than it had asked for", Next: "ask for more memoryMB, or use less", match: endedByPlatform("out of memory")},
	{Phrase: "TooManyProcesses", Class: Resource, Actor: Owner, Retry: Never, When: "too many processes",
		Means: "it started more processes and threads than it may have", Next: fewer,
		match: endedByPlatform("too many processes")},

	{Code: -310, Phrase: "PodCreationUnknownError", Class: Platform, Actor: Administrator, Retry: Counted, When: "nothing is known of its end",
		Means: "how it ended is not known", Next: tellThem, match: func(s *Observed) bool { return s.End == "failed" && s.Code == 0 && s.Cause == "" }},
	{Phrase: "Succeeded", Actor: None, Retry: Never, When: "exit code 0",
		Means: "it did its work", Next: "nothing", match: code(0)},

	{Phrase: "ExitRule", Class: User, Actor: Owner, Retry: Counted, When: "a rule of the cluster file fits",
		Means: "what the rule says", Next: "what the rule says", match: func(s *Observed) bool { return s.Rule != nil }},

	// What a program said last.
	{Phrase: "LibraryMissing", Class: User, Actor: Owner, Retry: Counted,
		When:  "exit code 127, says `error while loading shared libraries`",
		Means: "a library that its program needs is not there",
		Next:  "install it in the image; one of the driver is the node's: tell an administrator",
		match: both(code(127), says("error while loading shared libraries"))},
	{Code: 220, Phrase: "UserCommandExitWithError", Class: User, Actor: Owner, Retry: Never,
		When:  "exit code 127, says `not found`, `No such file or directory` or `Permission denied`",
		Means: "one of its commands does not exist there", Next: "look at its commands, its image and PATH",
		match: both(code(127), says(`\bnot found\b|no such file or directory|permission denied`))},
	{Code: 223, Phrase: "ContainerCudaUncorrectableECCError", Class: Platform, Actor: Administrator, Retry: Always, When: "says `CUDA_ERROR_ECC_UNCORRECTABLE` or `uncorrectable ECC error`",
		Means: "the memory of a GPU is broken", Next: tellThem, match: says("cuda_error_ecc_uncorrectable|uncorrectable ecc error")},
	{Code: 226, Phrase: "ContainerCudaOOMKilled", Class: Resource, Actor: Owner, Retry: Never, When: "says `CUDA out of memory` or the like",
		Means: "the memory of its GPUs was too small", Next: "use less of it, such as by a smaller batch, or ask for another SKU",
		match: says(`cuda(_error_| error: | runtime error.*| )out.of.memory`)},
	{Code: 221, Phrase: "ContainerTensorflowOOMKilled", Class: Resource, Actor: Owner, Retry: Never, When: "says `ResourceExhaustedError` or `ran out of memory trying to allocate`",
		Means: "TensorFlow found too little memory", Next: "use less of it, such as by a smaller batch, or ask for more",
		match: says("resourceexhaustederror|ran out of memory trying to allocate")},
	{Phrase: "TooLittleSharedMemory", Class: Resource, Actor: Owner, Retry: Never,
		When:  "says `insufficient shared memory`, `out of shared memory` or `killed by signal: Bus error`",
		Means: "its /dev/shm was full, such as by the workers of a data loader", Next: moreShm,
		match: says(`insufficient shared memory|out of shared memory|killed by signal: bus error`)},
	// That its own limit refused it was not seen: what else runs there may have met another one.
	{Phrase: "TooManyProcesses", Class: Resource, Actor: Owner, Retry: Counted,
		When:  "says `fork: Resource temporarily unavailable`, `can't start new thread` or the like",
		Means: "it could start no further process or thread there, by its own limit or by another", Next: fewer,
		match: says(noProcess)},
	{Code: 224, Phrase: "ContainerCudaVersionMismatch", Class: User, Actor: Owner, Retry: Never, When: "says `CUDA driver version is insufficient`",
		Means: "its image needs a newer driver than its machine has", Next: "take an image with an older CUDA",
		match: says("cuda driver version is insufficient")},
	{Code: 231, Phrase: "ContainerSyntaxError", Class: User, Actor: Owner, Retry: Never, When: "says `SyntaxError`, `IndentationError`, `NameError` or `AttributeError`",
		Means: "its program has a mistake that every try meets", Next: readLog, match: says(`\b(syntax|indentation|name|attribute)error:`)},
	{Code: 232, Phrase: "ContainerImportError", Class: User, Actor: Owner, Retry: Never, When: "says `ImportError` or `ModuleNotFoundError`",
		Means: "its program needs a module that is not there", Next: "install the module, or take an image that has it", match: says(`\b(import|modulenotfound)error:`)},
	{Code: 233, Phrase: "ContainerIndexOutOfRange", Class: User, Actor: Owner, Retry: Never, When: "says `IndexError`",
		Means: "its program asked a list for more than it has", Next: readLog, match: says(`\bindexerror:`)},
	{Code: 229, Phrase: "ContainerIncorrectDataModelError", Class: User, Actor: Owner, Retry: Never, When: "says `FileNotFoundError`, `UnicodeDecodeError`, `UnicodeEncodeError` or `EOFError`",
		Means: "a file of its data is missing or is not what its program expects", Next: "look at its data, its storages and the paths in its commands",
		match: says(`\b(filenotfound|unicodedecode|unicodeencode|eof)error:`)},

	// What a program's code says.
	{Code: 200, Phrase: "ContainerTransientFailed", Class: Transient, Actor: None, Retry: Always, When: "exit code 200",
		Means: "it says itself that its failure passes", Next: wait, match: code(200)},
	{Code: 201, Phrase: "ContainerTransientConflictFailed", Class: Conflict, Actor: None, Retry: Delayed, When: "exit code 201",
		Means: "it says itself that jobs were in each other's way", Next: again + " after 60 to 900 seconds", match: code(201)},
	{Code: 210, Phrase: "ContainerPermanentFailed", Class: Permanent, Actor: Owner, Retry: Never, When: "exit code 210",
		Means: "it says itself that another try would end alike", Next: readLog, match: code(210)},
	{Code: 126, Phrase: "NotStartable", Class: User, Actor: Owner, Retry: Never, When: "exit code 126",
		Means: "what it was to run cannot be run", Next: "look at its commands, its image and its working directory", match: code(126)},

	// Signals that a program brings on itself.
	{Code: 132, Phrase: "ContainerSigIllReceived", Class: User, Actor: Owner, Retry: Never, When: "SIGILL",
		Means: "its program used an instruction that the processor lacks", Next: "take a build for this machine's processor", match: signal(4)},
	{Code: 135, Phrase: "ContainerSigBusReceived", Class: User, Actor: Owner, Retry: Never, When: "SIGBUS",
		Means: "its program used memory that is not there, such as a full /dev/shm", Next: moreShm, match: signal(7)},
	{Code: 136, Phrase: "ContainerSigFpeReceived", Class: User, Actor: Owner, Retry: Never, When: "SIGFPE",
		Means: "its program divided by zero", Next: readLog, match: signal(8)},
	{Code: 139, Phrase: "ContainerSigSegvReceived", Class: User, Actor: Owner, Retry: Never, When: "SIGSEGV",
		Means: "its program used memory that is not its own", Next: readLog, match: signal(11)},
	{Code: 141, Phrase: "ContainerSigPipeReceived", Class: User, Actor: Owner, Retry: Never, When: "SIGPIPE",
		Means: "its program wrote to a pipe that is read no more", Next: readLog, match: signal(13)},
	{Code: 134, Phrase: "ContainerSigAbrtReceived", Class: User, Actor: Owner, Retry: Counted, When: "SIGABRT",
		Means: "its program gave up", Next: readLog, match: signal(6)},
	// Signals that come from elsewhere; it is not known from where, so the file's number holds.
	{Code: 130, Phrase: "ContainerSigIntReceived", Class: User, Actor: Owner, Retry: Counted, When: "SIGINT",
		Means: "something on its machine interrupted it", Next: readLog, match: signal(2)},
	{Code: 131, Phrase: "ContainerSigQuitReceived", Class: User, Actor: Owner, Retry: Counted, When: "SIGQUIT",
		Means: "something on its machine told it to quit", Next: readLog, match: signal(3)},
	{Code: 137, Phrase: "ContainerSigKillReceived", Class: User, Actor: Owner, Retry: Counted, When: "SIGKILL",
		Means: "something on its machine killed it; often memory had run out there", Next: "ask for more memoryMB, or read its log", match: signal(9)},
	{Code: 143, Phrase: "ContainerSigTermReceived", Class: User, Actor: Owner, Retry: Counted, When: "SIGTERM",
		Means: "something on its machine told it to end", Next: readLog, match: signal(15)},

	// What FrameworkController and OpenPAI give and Comb does not.
	{Code: -100, Phrase: "ConfigMapExternalDeleted", Class: Transient, Actor: None, Retry: Always, Means: "the record of the attempt was deleted in Kubernetes", Next: wait},
	{Code: -110, Phrase: "ConfigMapCreationTimeout", Class: Transient, Actor: None, Retry: Always, Means: "Kubernetes did not answer in time", Next: wait},
	{Code: -111, Phrase: "PodCreationTimeout", Class: Transient, Actor: None, Retry: Always, Means: "Kubernetes did not answer in time", Next: wait},
	{Code: -120, Phrase: "PodCreationTransientError", Class: Transient, Actor: None, Retry: Always, Means: "Kubernetes could not make the pod just then", Next: wait},
	{Code: -200, Phrase: "PodSpecPermanentError", Class: User, Actor: Owner, Retry: Never, Means: "the job cannot be made a pod; Comb refuses such a file when it is submitted", Next: mendFile},
	{Code: -230, Phrase: "DeleteTaskRequested", Class: Permanent, Actor: None, Retry: Never, Means: "the task was scaled away", Next: "nothing"},
	{Code: -300, Phrase: "PodFailedWithoutFailedContainer", Class: Platform, Actor: Administrator, Retry: Counted, Means: "the pod failed and none of its containers did", Next: tellThem},
	{Code: -1000, Phrase: "PodEvicted", Class: Transient, Actor: None, Retry: Always, Means: "the kubelet evicted the pod", Next: wait},
	{Code: -1002, Phrase: "PodScheduledToInsufficientResourceNode", Class: Transient, Actor: None, Retry: Always, Means: "the node had less left than the pod needed", Next: wait},
	{Code: -1003, Phrase: "PodPreemptedForCriticalPod", Class: Transient, Actor: None, Retry: Always, Means: "the kubelet made room for a critical pod", Next: wait},
	{Code: -1005, Phrase: "PodNodeAdmissionForbidden", Class: User, Actor: Owner, Retry: Never, Means: "the kubelet does not allow such a pod", Next: mendFile},
	{Code: -1006, Phrase: "PodNodeAdmissionUnexpectedError", Class: Transient, Actor: None, Retry: Always, Means: "the kubelet failed to take the pod", Next: wait},
}

// moreShm is what to do about a full /dev/shm: it is as large as the memory by default.
const moreShm = "ask for more memory, or for more shared memory where the job limits it (--shm, shmMB), " +
	"or start fewer workers of a data loader"

// noProcess is what programs say that can start no process or thread.
const noProcess = "(fork|thread|pthread_create)[^:]*(failed)?: (retry: )?resource temporarily unavailable|" +
	"can't start new thread|failed to create new os thread|unable to create (new )?native thread"

var saysNoProcess = says(noProcess)

// SaysNoProcess reports whether a program that failed with such a last line could start no process
// or thread.
func SaysNoProcess(words string) bool { return saysNoProcess(&Observed{Code: 1, LastLine: words}) }

// fallback is what no other line is about.
var fallback = Entry{Phrase: "FailedByUser", Class: User, Actor: Owner, Retry: Counted, When: "any other exit code, or `grace over`",
	Means: "its program failed by itself", Next: readLog, match: func(*Observed) bool { return true }}
