// What each check means to somebody who has not read the specification.

const MEANING = {
  "pack is canonical": "The file is one evidence pack in its only spelling, with nothing hidden behind it.",
  "rotation records form one chain from the log's first key":
    "Every change of the hub's key was signed by the old and by the new key, back to the first one.",
  "signer is the hub you trust": "The fingerprint you typed is a key of the log this pack comes from.",
  "receipt is canonical": "The receipt has its only spelling.",
  "message is canonical": "The message has its only spelling.",
  "ct_hash is that of the ciphertext (I1)": "The sealed bytes are those that the author hashed.",
  "message is signed by its client_id": "The author signed this very message; nobody else could.",
  "proof is canonical": "The proof has its only spelling.",
  "manifest is canonical": "The checkpoint manifest has its only spelling.",
  "manifest and its checkpoints are signed by a pinned key":
    "The hub signed the state of all its streams, this one included.",
  "receipt is signed by a pinned key": "The hub promised this place to this message.",
  "receipt is for this message (I2)":
    "The leaf is computed again from the message itself: the receipt belongs to it and to no other.",
  "leaf is included under the last manifest of the superseded key":
    "The hub's old key signed this; it counts because the message was in the log when that key ended.",
  "proof is for the receipt's leaf": "Proof and receipt speak of the same message.",
  "leaf stands at # under a signed root (I3)":
    "Length and sides of the path follow from the place, so the leaf stands there and nowhere else.",
  "checkpoint is the manifest's own for this label": "The checkpoint is the one inside the manifest, byte for byte.",
  "proof reaches the manifest's checkpoint": "Folding the path gives exactly the root that the hub signed.",
  "receipt's root follows from the same proof":
    "The log as it was at the receipt is the beginning of the log at the checkpoint: no history was swapped.",
  "disclosed secret opens the message":
    "Header and body open under the secret of this one message, bound to author, place in line and stream.",
  "cap_ref is the message's auth_ref": "The author acted under the capability that the message names.",
};

function meaningKey(name) {
  return name.replace(/leaf stands at \d+ under/, "leaf stands at # under");
}
