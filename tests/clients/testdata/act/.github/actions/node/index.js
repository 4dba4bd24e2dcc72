const fs = require("fs");
console.log("twice", 2 * process.env.INPUT_N);
fs.appendFileSync(process.env.GITHUB_OUTPUT, "twice=" + 2 * process.env.INPUT_N + "\n");
