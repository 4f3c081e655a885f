export const text = {
  title: 'System',
  forAdmins: 'This page is for administrators. How tasks run here is on',
  toNodes: 'Nodes',
  server: 'This server',
  runtime: 'Tasks run as',
  version: 'Version',
  api: 'REST API',
  decisions: 'Version of the scheduler',
  cluster: 'Id of the data directory',
};
