"""The codec: messages declared once for all versions, compiled on first use.

Reading order: `schema` (how a message is declared), `messages/` and `records/` (the declarations),
`encoder` and `decoder` (the functions compiled from them), `frame`, `record_frame` and `json_form` (framing
and text form), `apis` (the list of APIs).
"""
