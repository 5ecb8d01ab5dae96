"""The codec: messages declared once for all versions, compiled on first use.

Reading order: `schema` (how a message is declared), `messages/` and `records/` (the declarations),
`encoder` and `decoder` (what `compile` makes of them), `frame`, `record_frame` and `json_form` (what is
around a message), `apis` (which messages there are).
"""
