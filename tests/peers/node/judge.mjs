// snarkjs as a library, one process for many circuits: node judge.mjs FOLDER...
// Of each folder it judges proof.json, exports the key's verification key to theirs.json, proves the witness with the
// key into theirs.proof.json and theirs.public.json, and prints a JSON line. The files are named as below.
import { readFile, writeFile } from "node:fs/promises";
import * as snarkjs from "snarkjs";

const json = async (path) => JSON.parse(await readFile(path, "utf8"));

for (const folder of process.argv.slice(2)) {
    const accepted = await snarkjs.groth16.verify(
        await json(`${folder}/vkey.json`), await json(`${folder}/public.json`), await json(`${folder}/proof.json`));
    const vkey = await snarkjs.zKey.exportVerificationKey(`${folder}/c.zkey`);
    await writeFile(`${folder}/theirs.json`, JSON.stringify(vkey));
    const { proof, publicSignals } = await snarkjs.groth16.prove(`${folder}/c.zkey`, `${folder}/witness.wtns`);
    await writeFile(`${folder}/theirs.proof.json`, JSON.stringify(proof));
    await writeFile(`${folder}/theirs.public.json`, JSON.stringify(publicSignals));
    console.log(JSON.stringify({ folder, accepted }));
}
process.exit(0); // its curves keep worker threads
