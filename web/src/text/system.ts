export const text = {
  title: 'System',
  server: 'This server',
  runtime: 'Tasks run as',
  version: 'Version',
  api: 'REST API',
  decisions: 'Version of the scheduler',
  cluster: 'Id of the data directory',
};
