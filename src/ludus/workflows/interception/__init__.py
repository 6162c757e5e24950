"""An OpenAI endpoint that remembers: programs that know nothing of ludus talk to the policy through it, and every reply
is kept as the very tokens that were sampled.

  request -> server (routes, token) -> agent_request (checked; turns) -> interception (conversations) -> answer
"""
