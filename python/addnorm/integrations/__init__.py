"""The doctor inside other tools. Each module imports its tool.

    lightning       a callback for Lightning
    transformers    a callback for the Trainer of Hugging Face
    loggers         log functions of addnorm.watch for TensorBoard and Weights & Biases
    github          annotations for GitHub Actions
    pytest_plugin   the fixture addnorm_sound and the options --addnorm-baseline and
                    --addnorm-update-baseline; pytest finds the plugin itself
"""
