package pai

import (
	"net/http"
	"strings"

	"github.com/combsched/comb/internal/core/access"
)

// Need is the right that a route requires: a verb of the table of rights, about the cluster
// or about the job that its path names.
type Need struct {
	Verb     access.Verb
	Job      bool // the app checks it, once it knows the job
	InPerson bool // not for tokens that were made for programs, whatever their user may do
	Open     bool // needs no token
	Own      bool // about the asker's own account the verb is OwnAccount
}

// route is a row of the table of routes.
type route struct {
	need Need
	do   http.HandlerFunc
}

const ofTask = "/taskRoles/{role}/taskIndex/{index}"

// routes are the routes of OpenPAI and HiveD, with the right that each requires.
func (h *Handler) routes(version string) map[string]route {
	about := func(verb access.Verb, do http.HandlerFunc) route { return route{Need{Verb: verb}, do} }
	job := func(verb access.Verb, do http.HandlerFunc) route { return route{Need{Verb: verb, Job: true}, do} }
	person := func(do http.HandlerFunc) route { return route{Need{Verb: access.OwnAccount, InPerson: true}, do} }
	open := func(do http.HandlerFunc) route { return route{Need{Open: true}, do} }
	const see, change = access.SeePeople, access.ChangePeople
	const attempts, task = "/jobs/{job}/job-attempts", "/jobs/{job}/attempts/{attempt}" + ofTask + "/attempts"
	all := inspected(h)
	for pattern, r := range map[string]route{
		"GET /info":                            open(info(version)),
		"POST /authn/basic/login":              open(h.login),
		"GET " + ticketPath + "{ticket}":       open(h.ticketLog), // by the rights of the ticket's user
		"DELETE /authn/basic/logout":           person(h.logout),
		"GET /tokens":                          about(access.OwnAccount, h.listTokens),
		"POST /tokens/application":             person(h.createToken),
		"DELETE /tokens/{token}":               about(access.OwnAccount, h.revokeToken),
		"POST /users":                          about(change, h.createUser),
		"GET /users":                           about(see, h.listUsers),
		"PUT /users":                           about(change, h.updateUser),
		"PUT /users/me":                        person(h.updateMe),
		"GET /users/{user}":                    {Need{Verb: see, Own: true}, h.getUser},
		"DELETE /users/{user}":                 about(change, h.deleteUser),
		"PUT /users/{user}/group":              about(change, h.addToGroup),
		"DELETE /users/{user}/group":           about(change, h.removeFromGroup),
		"PUT /users/{user}/grouplist":          about(change, h.setGroups),
		"PUT /users/{user}/virtualcluster":     about(change, setVCs(h)),
		"GET /groups":                          about(see, h.listGroups),
		"POST /groups":                         about(change, h.createGroup),
		"PUT /groups":                          about(change, h.updateGroup),
		"GET /groups/{group}":                  about(see, h.getGroup),
		"DELETE /groups/{group}":               about(change, h.deleteGroup),
		"GET /groups/{group}/userlist":         about(see, h.groupUsers),
		"GET /virtual-clusters":                about(access.SeeCluster, h.listVCs),
		"GET /virtual-clusters/{vc}":           about(access.SeeCluster, h.getVC),
		"GET /virtual-clusters/{vc}/sku-types": about(access.SeeCluster, h.skuTypes),
		"GET /cluster/sku-types":               about(access.SeeCluster, h.skuTypes),
		"GET /storages":                        about(access.SeeCluster, h.listStorages),
		"GET /storages/{storage}":              about(access.SeeCluster, h.getStorage),
		"GET /kubernetes/nodes":                about(access.SeeFile, h.nodes), // in OpenPAI only for administrators
		"GET /kubernetes/pods": about(access.OwnAccount, notHere("Comb runs no pods here: there "+
			"is no list of them")),
		"GET /alerts": about(access.SeeCluster, alerts(h)),
		"GET /authn/oidc/login": about(access.OwnAccount, notHere("users sign in with a name and "+
			"a password here")),
		"GET /authn/oidc/logout": about(access.OwnAccount, notHere("users sign in with a name and "+
			"a password here")),
		"POST /jobs":                           job(access.SubmitJob, h.submit),
		"GET /jobs":                            job(access.SeeJob, h.listJobs),
		"GET /jobs/{job}":                      job(access.SeeJob, h.getJob),
		"GET /jobs/{job}/config":               job(access.ReadJob, h.jobConfig),
		"PUT /jobs/{job}/executionType":        job(access.ChangeJob, h.executionType),
		"PUT /jobs/{job}/tag":                  job(access.ChangeJob, tag(h, true)),
		"DELETE /jobs/{job}/tag":               job(access.ChangeJob, tag(h, false)),
		"GET /jobs/{job}/ssh":                  job(access.SeeJob, h.ssh),
		"GET /jobs/{job}/events":               job(access.ReadJob, h.events),
		"GET " + attempts + "/healthz":         job(access.SeeJob, h.attemptsHealth),
		"GET " + attempts:                      job(access.ReadJob, h.listAttempts),
		"GET " + attempts + "/{attempt}":       job(access.ReadJob, h.getAttempt),
		"GET /jobs/{job}/attempts/{attempt}":   job(access.SeeJob, h.getJob),
		"GET " + task:                          job(access.SeeJob, h.getTask),
		"GET " + task + "/{run}/logs":          job(access.ReadJob, h.taskLogs),
		"GET " + task + "/{run}/logs/{stream}": job(access.ReadJob, h.taskLog),
	} {
		method, at, _ := strings.Cut(pattern, " ")
		all[method+" "+Prefix+at] = r
	}
	return all
}

// inspected are HiveD's routes.
func inspected(h *Handler) map[string]route {
	all := map[string]route{}
	gangs, cells := Need{Verb: access.SeeJob, Job: true}, Need{Verb: access.SeeCluster}
	for at, r := range map[string]route{
		"/affinitygroups":                     {gangs, h.affinityGroups},
		"/affinitygroups/{name...}":           {gangs, h.affinityGroups},
		"/clusterstatus":                      {cells, h.clusterStatus},
		"/clusterstatus/physicalcluster":      {cells, h.physicalCluster},
		"/clusterstatus/virtualclusters":      {cells, h.virtualClusters},
		"/clusterstatus/virtualclusters/{vc}": {cells, h.virtualClusters},
	} {
		all["GET "+Inspect+at] = r
	}
	return all
}

// Needs are the required rights of all routes, by method and path.
func Needs() map[string]Need {
	all := map[string]Need{}
	for pattern, r := range (&Handler{}).routes("") {
		all[pattern] = r.need
	}
	return all
}

// guarded checks the right of a route before it is called. For a route about a job the app
// checks it, once it knows the job.
func guarded(h *Handler, r route) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		switch n := r.need; {
		case n.Open, n.Job, n.Own:
		case n.InPerson && !h.inPerson(w, req), !n.InPerson && !h.allowed(w, req, n.Verb):
			return
		}
		r.do(w, req)
	}
}
