// Makes every call of OpenPAI's client library against a server, and holds each answer against the library's own
// description of the API. Prints one line for each mistake, and at the end how many calls were made.
//
// The first argument names a file of JSON: {uri, user, password, admin, vc, other: {user, vc}, job}; job is a job file.
'use strict';
const fs = require('fs');
const path = require('path');
const {createRequire} = require('module');
const load = createRequire(path.join(process.cwd(), 'package.json'));
const axios = load('axios');
const yaml = load('js-yaml');
const Ajv = load('ajv');
const sdk = load('@microsoft/openpai-js-sdk');

const setup = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'));
const Client = sdk.OpenPAIClient || sdk.PAIV2.OpenPAIClient;
const description = yaml.safeLoad(fs.readFileSync(
  path.join(path.dirname(load.resolve('@microsoft/openpai-js-sdk')), 'api/v2/swagger.yaml'), 'utf8'));

let mistakes = 0;
let calls = 0;
let refused; // the code of the last refusal
const seen = new Set();

function mistake(text) {
  mistakes++;
  console.log('MISTAKE ' + text);
}

// resolve follows references and turns what OpenAPI calls nullable into what JSON Schema knows.
function resolve(node) {
  if (Array.isArray(node)) {
    return node.map(resolve);
  }
  if (node === null || typeof node !== 'object') {
    return node;
  }
  if (typeof node.$ref === 'string') {
    if (!node.$ref.startsWith('#/')) {
      return {}; // a file elsewhere
    }
    const parts = node.$ref.slice(2).split('/').map(p => p.replace(/~1/g, '/').replace(/~0/g, '~'));
    return resolve(parts.reduce((at, p) => at[p], description));
  }
  const out = {};
  for (const [key, value] of Object.entries(node)) {
    if (key !== 'example' && key !== 'examples') {
      out[key] = resolve(value);
    }
  }
  if (out.nullable && typeof out.type === 'string') {
    out.type = [out.type, 'null'];
  }
  delete out.nullable;
  return out;
}

// route finds the description of a path.
function route(pathname) {
  let best;
  for (const template of Object.keys(description.paths)) {
    const pattern = '^' + template.replace(/\/$/, '').replace(/\{[^}]+\}/g, '[^/]+') + '/?$';
    if (new RegExp(pattern).test(pathname) && (!best || template.split('{').length < best.split('{').length)) {
      best = template;
    }
  }
  return best;
}

function check(response) {
  const at = new URL(response.config.url);
  const pathname = at.pathname.replace(/^\/rest-server/, '');
  const method = response.config.method.toLowerCase();
  const name = `${method.toUpperCase()} ${pathname} -> ${response.status}`;
  const template = route(pathname);
  if (!template) {
    if (!pathname.endsWith('/sku-types')) { // the library calls it, its description lacks it
      mistake(`${name}: not described`);
    }
    return;
  }
  seen.add(`${method.toUpperCase()} ${template}`);
  let data = response.data;
  if (typeof data === 'string' && response.status >= 400) {
    data = JSON.parse(data);
  }
  if (response.status >= 400) {
    refused = data.code;
    if (typeof data.code !== 'string' || typeof data.message !== 'string') {
      mistake(`${name}: no error of OpenPAI: ${JSON.stringify(data)}`);
    }
    return;
  }
  const operation = description.paths[template][method];
  const described = operation && operation.responses[response.status];
  if (!described) {
    mistake(`${name}: this status is not described`);
    return;
  }
  const content = resolve(described).content;
  if (!content || !content['application/json'] || !content['application/json'].schema) {
    return;
  }
  const ajv = new Ajv({unknownFormats: 'ignore', allErrors: true, logger: false});
  const validate = ajv.compile(content['application/json'].schema);
  if (!validate(data)) {
    mistake(`${name}: ${ajv.errorsText(validate.errors)} in ${JSON.stringify(data).slice(0, 600)}`);
  }
}

axios.interceptors.response.use(r => { check(r); return r; }, e => {
  if (e.response) {
    check(e.response);
  }
  return Promise.reject(e);
});

// call makes a call; want is what it must answer with: 'ok', or a code of OpenPAI's.
async function call(name, want, f) {
  calls++;
  let got = 'ok', value;
  refused = undefined;
  try {
    value = await f();
  } catch (e) {
    got = refused || String(e.stack || e);
  }
  if (got !== want) {
    mistake(`${name}: ${got}, want ${want}`);
  }
  return value;
}

function expect(what, ok) {
  if (!ok) {
    mistake(what);
  }
}

const sleep = ms => new Promise(done => setTimeout(done, ms));

async function main() {
  const open = (user, password) => new Client({pai_uri: setup.uri, rest_server_uri: setup.uri + '/rest-server', username: user, password, https: false, alias: user});
  const c = open(setup.user, setup.password);
  const admin = open(setup.admin, setup.password);
  const job = yaml.safeLoad(setup.job);
  const me = setup.user;
  const {user: other, vc: otherVC} = setup.other;

  await call('getClusterInfo', 'ok', () => c.api.getClusterInfo());
  await call('basicLogin, wrong', 'IncorrectPasswordError', () => c.authn.basicLogin(me, 'a wrong password'));
  const login = await call('basicLogin', 'ok', () => c.authn.basicLogin(me, setup.password, 4000));
  expect('the login names the user', login.user === me && login.admin === false);
  await call('oidcLogin', 'NotImplementedError', () => c.authn.oidcLogin());
  await call('oidcLogout', 'NotImplementedError', () => c.authn.oidcLogout());

  const app = await call('createApplicationToken', 'ok', () => c.token.createApplicationToken());
  const tokens = await call('getTokens', 'ok', () => c.token.getTokens());
  expect('the tokens are listed', tokens.tokens.length >= 2);
  await call('deleteToken', 'ok', () => c.token.deleteToken(app.token));

  await call('getUser', 'ok', () => c.user.getUser(me));
  await call('getUser, another', 'ForbiddenUserError', () => c.user.getUser(other));
  await call('getAllUser, no administrator', 'ForbiddenUserError', () => c.user.getAllUser());
  await call('getAllUser', 'ok', () => admin.user.getAllUser());
  await call('createUser', 'ok', () => admin.user.createUser({username: 'dave', password: 'a long password', email: 'dave@example.com', virtualCluster: [setup.vc]}));
  await call('createUser, again', 'ConflictUserError', () => admin.user.createUser({username: 'dave', password: 'a long password'}));
  await call('updateUser', 'ok', () => admin.user.updateUser({username: 'dave', email: 'd@example.com'}));
  await call('updateUserGroup', 'ok', () => admin.user.updateUserGroup('dave', otherVC));
  await call('deleteUserGroup', 'ok', () => admin.user.deleteUserGroup('dave', otherVC));
  await call('updateUserGrouplist', 'ok', () => admin.user.updateUserGrouplist('dave', [otherVC]));
  await call('deleteUser', 'ok', () => admin.user.deleteUser('dave'));
  await call('updateUserSelf', 'ok', () => c.user.updateUserSelf({username: me, email: me + '@example.com'}));

  await call('createGroup', 'ok', () => admin.group.createGroup({groupname: 'lab', description: 'a lab'}));
  await call('updateGroup', 'ok', () => admin.group.updateGroup({groupname: 'lab', externalName: 'lab'}));
  await call('getGroup', 'ok', () => admin.group.getGroup('lab'));
  await call('getGroupMembers', 'ok', () => admin.group.getGroupMembers(setup.vc));
  await call('getAllGroup', 'ok', () => admin.group.getAllGroup());
  await call('deleteGroup', 'ok', () => admin.group.deleteGroup('lab'));

  const vcs = await call('listVirtualClusters', 'ok', () => c.virtualCluster.listVirtualClusters());
  expect('both virtual clusters are listed', vcs[setup.vc] && vcs[otherVC]);
  await call('getVirtualCluster', 'ok', () => c.virtualCluster.getVirtualCluster(setup.vc));
  await call('getVirtualCluster, none', 'NoVirtualClusterError', () => c.virtualCluster.getVirtualCluster('none'));
  await call('getVirtualClusterSkuTypes', 'ok', () => c.virtualCluster.getVirtualClusterSkuTypes(setup.vc));
  await call('getStorages', 'ok', () => c.storage.getStorages());
  await call('getStorage', 'NoStorageError', () => c.storage.getStorage('none'));
  await call('getK8sNodes', 'ok', () => admin.kubernetes.getK8sNodes());
  await call('getK8sNodes, no administrator', 'ForbiddenUserError', () => c.kubernetes.getK8sNodes());
  await call('getK8sPods', 'NotImplementedError', () => admin.kubernetes.getK8sPods());

  await call('createJob, nonsense', 'InvalidProtocolError', () => c.job.createJob({protocolVersion: 2, name: 'x', type: 'job'}));
  await call('createJob, another VC', 'ForbiddenUserError', () => c.job.createJob({...job, defaults: {virtualCluster: otherVC}}));
  await call('createJob, no VC', 'NoVirtualClusterError', () => c.job.createJob({...job, defaults: {virtualCluster: 'none'}}));
  await call('createJob', 'ok', () => c.job.createJob(job));
  await call('createJob, again', 'ConflictJobError', () => c.job.createJob(job));
  const name = job.name;
  let detail;
  for (let i = 0; i < 100; i++) {
    detail = await c.job.getJob(me, name);
    if (detail.jobStatus.state === 'RUNNING') {
      break;
    }
    await sleep(100);
  }
  expect('the job runs: ' + detail.jobStatus.state, detail.jobStatus.state === 'RUNNING');
  await call('getJob', 'ok', () => c.job.getJob(me, name));
  await call('getJob, an attempt', 'ok', () => c.job.getJob(me, name, 0));
  await call('getJob, none', 'NoJobError', () => c.job.getJob(me, 'none'));
  const config = await call('getJobConfig', 'ok', () => c.job.getJobConfig(me, name));
  expect('the file comes back', config.name === name);
  const [role] = Object.keys(job.taskRoles);
  await call('getTask', 'ok', () => c.job.getTask(me, name, 0, role, 0));
  const logs = await call('getTaskLogs', 'ok', () => c.job.getTaskLogs(me, name, 0, role, 0, 0));
  await sleep(500);
  const text = await axios.default.create().get(logs.locations.find(l => l.name === 'stdout').uri);
  expect('the log is read by its address: ' + text.data, String(text.data).includes('hello from ' + me));
  await call('getTaskLogs, tail', 'ok', () => c.job.getTaskLogs(me, name, 0, role, 0, 0, true));
  await call('listEvents', 'ok', () => c.job.listEvents(me, name));
  await call('getJobAttemptsHealthz', 'ok', () => c.jobHistory.getJobAttemptsHealthz(me, name));
  await call('getJobAttempts', 'ok', () => c.jobHistory.getJobAttempts(me, name));
  await call('getJobAttempt', 'ok', () => c.jobHistory.getJobAttempt(me, name, 0));
  await call('addTag', 'ok', () => c.job.addTag(me, name, 'x'));
  await call('deleteTag', 'ok', () => c.job.deleteTag(me, name, 'x'));
  const list = await call('listJobs', 'ok', () => c.job.listJobs({username: `${me},${other}`, vc: `${setup.vc},${otherVC}`, limit: 100}));
  expect('only the own jobs are listed: ' + JSON.stringify(list), list.length > 0 && list.every(j => j.username === me));
  const counted = await call('listJobs, counted', 'ok', () => c.job.listJobs({withTotalCount: true, order: 'submissionTime,ASC'}));
  expect('the list is counted', counted.totalCount === counted.data.length);
  await call('updateJobExecutionType', 'ok', () => c.job.updateJobExecutionType(me, name, 'STOP'));
  await call('updateJobExecutionType, a stranger', 'NoJobError', () => c.job.updateJobExecutionType(other, 'train', 'STOP'));
  for (let i = 0; i < 100 && detail.jobStatus.state !== 'STOPPED'; i++) {
    await sleep(100);
    detail = await c.job.getJob(me, name);
  }
  expect('the job is stopped: ' + JSON.stringify(detail.jobStatus), detail.jobStatus.state === 'STOPPED' && detail.jobStatus.appExitCode === -210);
  await call('createRunningJob', 'ok', () => c.job.createRunningJob({...job, name: name + '2'}));
  await call('updateJobExecutionType', 'ok', () => c.job.updateJobExecutionType(me, name + '2', 'STOP'));

  // A client of VS Code asks so for the version of the API: the error must be one of JSON, and not NoApiError.
  calls++;
  const probe = await axios.default.create({validateStatus: () => true}).get(setup.uri + '/rest-server/api/v2/jobs/protocolversion/config');
  expect('the version is told: ' + JSON.stringify(probe.data), probe.data.code && probe.data.code !== 'NoApiError');

  await call('basicLogout', 'ok', () => c.authn.basicLogout());
  await call('getJob, signed out', 'UnauthorizedUserError', () => c.job.getJob(me, name));
  for (const [template, item] of Object.entries(description.paths)) {
    for (const method of Object.keys(item)) {
      if (['get', 'put', 'post', 'delete'].includes(method) && !seen.has(`${method.toUpperCase()} ${template}`)) {
        console.log(`not called: ${method.toUpperCase()} ${template}`);
      }
    }
  }
  console.log(`${calls} calls, ${mistakes} mistakes`);
  process.exitCode = mistakes ? 1 : 0;
}

main().catch(e => { console.log('MISTAKE ' + e.stack); process.exitCode = 1; });
