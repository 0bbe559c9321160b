//! The Agent trait and its built-in agents: echo, script, openai.
