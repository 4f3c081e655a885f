package server

import (
	"github.com/combsched/comb/internal/core/access"
)

// requiredRight is the right that a route requires: a verb, about the cluster or about the job that
// its path names.
type requiredRight struct {
	verb access.Verb
	job  bool // checked once the job, or its VC, is known
	open bool // needs no token
}

// requiredRights has a row for each route, by its operation. A route without one is refused to all.
var requiredRights = map[string]requiredRight{
	"get-health":              {open: true},
	"get-info":                {verb: access.OwnAccount},
	"get-openapi":             {verb: access.OwnAccount},
	"submit-job":              {verb: access.SubmitJob, job: true},
	"validate-job":            {verb: access.SubmitJob, job: true},
	"list-jobs":               {verb: access.SeeJob, job: true},
	"list-starts":             {verb: access.SeeJob, job: true},
	"get-job":                 {verb: access.SeeJob, job: true},
	"hold-job":                {verb: access.ChangeJob, job: true},
	"release-job":             {verb: access.ChangeJob, job: true},
	"requeue-job":             {verb: access.ChangeJob, job: true},
	"tag-job":                 {verb: access.ChangeJob, job: true},
	"untag-job":               {verb: access.ChangeJob, job: true},
	"update-job":              {verb: access.ChangeJob, job: true},
	"explain-job":             {verb: access.SeeJob, job: true},
	"stop-job":                {verb: access.ChangeJob, job: true},
	"get-job-config":          {verb: access.ReadJob, job: true},
	"list-job-events":         {verb: access.ReadJob, job: true},
	"get-job-history":         {verb: access.ReadJob, job: true},
	"get-job-usage":           {verb: access.ReadJob, job: true},
	"get-job-logs":            {verb: access.ReadJob, job: true},
	"get-task-log":            {verb: access.ReadJob, job: true},
	"exec-in-task":            {verb: access.EnterJob, job: true},
	"connect-to-task":         {verb: access.EnterJob, job: true},
	"list-events":             {verb: access.ReadJob, job: true},
	"list-storages":           {verb: access.SeeCluster},
	"list-vcs":                {verb: access.SeeCluster},
	"get-vc":                  {verb: access.SeeCluster},
	"list-nodes":              {verb: access.SeeCluster},
	"list-cells":              {verb: access.SeeCluster},
	"get-node":                {verb: access.SeeCluster},
	"drain-node":              {verb: access.ChangeCluster},
	"plan-drain":              {verb: access.ChangeCluster},
	"declare-node-dead":       {verb: access.ChangeCluster},
	"cordon-node":             {verb: access.ChangeCluster},
	"uncordon-node":           {verb: access.ChangeCluster},
	"get-config":              {verb: access.SeeFile},
	"get-config-file":         {verb: access.SeeFile},
	"apply-config":            {verb: access.ChangeCluster},
	"list-config-versions":    {verb: access.SeeFile},
	"get-config-version-file": {verb: access.SeeFile},
	"validate-config":         {verb: access.ChangeCluster},
	"plan-config":             {verb: access.ChangeCluster},
	"list-uploads":            {verb: access.ReadJob}, // for users that submit jobs, and their read-only tokens
	"put-upload":              {verb: access.SubmitJob},
	"list-images":             {verb: access.SeeImages},
	"image-history":           {verb: access.SeeImages},
	"pull-image":              {verb: access.FetchImages},
	"build-image":             {verb: access.BuildImages},
	"prune-images":            {verb: access.RemoveImages},
	"get-sign-in":             {open: true},
	"sign-in":                 {open: true},
	"set-up":                  {open: true},
	"begin-sign-in":           {open: true},
	"finish-sign-in":          {open: true},
	"redeem-sign-in":          {open: true},
	"sign-out":                {verb: access.OwnAccount},
	"get-me":                  {verb: access.OwnAccount},
	"change-my-password":      {verb: access.OwnAccount},
	"list-tokens":             {verb: access.OwnAccount},
	"create-token":            {verb: access.OwnAccount},
	"revoke-token":            {verb: access.OwnAccount},
	"list-users":              {verb: access.SeePeople},
	"get-user":                {verb: access.SeePeople},
	"list-groups":             {verb: access.SeePeople},
	"get-group":               {verb: access.SeePeople},
	"create-users":            {verb: access.ChangePeople},
	"update-user":             {verb: access.ChangePeople},
	"delete-user":             {verb: access.ChangePeople},
	"create-group":            {verb: access.ChangePeople},
	"update-group":            {verb: access.ChangePeople},
	"delete-group":            {verb: access.ChangePeople},
	"list-audit":              {verb: access.ReadAudit},
	"verify-audit":            {verb: access.ReadAudit},
}
