"""The 52 mutation operators of DEForm, written anew, and what the doctor says of the models that they damage."""
