package wall

// StatusFile is where the collector says what it loaded, for `agentjail inspect`: JSON, root's.
const StatusFile = "/run/agentjail-journal/status.json"
