export const text = {
  title: 'Sign in',
  user: 'User name',
  password: 'Password',
  enter: 'Sign in',
  entering: 'Signing in…',
  over: 'Your session is over',
  overWhy: 'Sign in again to go on where you were. Nothing that you typed is lost.',
  help: 'Ask an administrator of the cluster for an account, or for a new password.',
};
