"""Ordinary sentences, in which a rule for credentials must find nothing."""

from typing import Final

WRITTEN: Final = """\
User prefers dark mode.
Her name is Sheila and she keeps bees on the roof.
Met Daniel at 16:30 on 2024-05-01, he will call back on +44 20 7946 0958.
The meeting moved from 10:00 to 11:15; room B-204, second floor.
Call me at (555) 123-4567 or +1-202-555-0143 after lunch.
Order number 4711-0815-2342 shipped on 12/11/2025.
Invoice 2025-000417, 1,299.00 EUR, due in 30 days.
Tracking number 1Z999AA10123456784 says it is in Louisville.
Flight LH4421 leaves at 06:55 from gate A12, seat 23C.
The booking reference is XK4P9T, the boarding pass: LH4421 seat 12A.
ISBN 978-3-16-148410-0 is the one she wants for her birthday.
IBAN DE89 3704 0044 0532 0130 00 is where the rent goes.
Her IBAN is GB82 WEST 1234 5698 7654 32, it stands on every invoice.
The IMEI of the old phone is 353901234567890.
Serial number SN-8842-11A7-0093, bought in 2019.
commit e76cdff4a04fce19090596d49862fe87a5c15aaa fixes it
Fixed in 642a02a, see also d8f1ba5 and 25bf63c.
sha256 8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6
md5 of the archive: d41d8cd98f00b204e9800998ecf8427e
id 01a1fcc9-9872-70bb-b078-836f775780fa was claimed
Request 550e8400-e29b-41d4-a716-446655440000 was answered in 12 ms.
The image is example.com/team/app@sha256:4bcff63911fcb4448bd4fdacec207030997caf25e9bea4045fa6c8c44de311d1
The trace id is 4bf92f3577b34da6a3ce929d0e0e4736 and the span 00f067aa0ba902b7.
My password manager is Bitwarden.
I forgot my password again.
She forgot her PIN and had to go to the bank.
I forgot my PIN
The password policy says at least 12 characters, one digit and one sign.
The password is wrong, try again.
The password is too short.
The password is stored in the vault under infra/prod.
The password is hashed with bcrypt before it is saved.
the password is SHA-256-hashed and salted
The password is at least 8 characters long.
The password is 12 characters long.
Password: required
password: string
Password: must contain a digit
password: optional, 8-64 characters
Password: see 1Password.
password: <your password>
password: ${DB_PASSWORD}
password: {{ vault_db_password }}
password=os.environ["DB_PASSWORD"]
password = get_password(user1)
password = config.db2.password
login(user=user, password=password)
password: str = Field(min_length=8)
password VARCHAR(255) NOT NULL
"password": "Password",
"password": "********"
"password": "must be at least 8 characters long"
Passwort: siehe Tresor
Das Passwort ist falsch.
Das Passwort ist abgelaufen und muss bis 31.12.2025 geändert werden.
Ich habe mein Passwort vergessen.
Le mot de passe est incorrect.
J'ai oublié mon mot de passe, le nouveau arrive par e-mail.
La contraseña es demasiado corta.
La contraseña tiene que tener 12 caracteres.
Minha senha expirou ontem.
Het wachtwoord is verlopen.
Hasło jest za krótkie.
Пароль неверный, попробуйте ещё раз.
密码错误，请重试。
パスワードを忘れました。
비밀번호를 잊어버렸어요.
Password reset links expire after 24h.
The Wi-Fi password is on the back of the router.
The wifi password is on the fridge, ask grandma.
Never write your password into a chat.
Change the password every 90 days, said the auditor in 2019.
The passphrase is stored in the vault, ask Jo.
A passphrase is better than a password.
She uses a passphrase of five random words.
Passcode required on the iPad.
The token budget is 8000.
the token budget is 8000 tokens
max_tokens=4096, temperature=0.7
input_tokens: 1204, output_tokens: 388
The tokenizer splits it into 17 tokens.
Next page token: CAUQAAoWZ2V0LXBhZ2UtMjAyNA8f7d6e5c4b
The idempotency key is 01a1fcc9-9872-70bb-b078-836f775780fa
The cache key is 8199be6f699a395f99f89df973f9dc52
Primary key: 01a1fcc9-9872-70bb-b078-836f775780fa
The key is under the mat.
The key to success is patience.
Her secret is a pinch of cinnamon.
The secret ingredient is smoked paprika from 2023.
It is no secret: they moved to Lisbon in 2021.
The API key is in the vault, never in the repository.
api_key: ${OPENAI_API_KEY}
api_key = os.getenv("OPENAI_API_KEY")
Set OPENAI_API_KEY before you start the server.
export ANTHROPIC_API_KEY=<your key>
API keys begin with sk- and are 51 characters long.
GitHub tokens begin with ghp_ or github_pat_.
An access token is valid for 3600 seconds.
Use a bearer token in the header.
Authorization: Bearer <token>
Authorization: Bearer $TOKEN
The basic idea is simple, the basic version costs 9.99.
Basic authentication is switched off.
secret_manager_client = SecretManagerServiceClient()
secrets: projects/my-project-2024/secrets/db-password/versions/3
The public key is ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsABgH5C9okWi0dh2l9GKJl jo@laptop
The fingerprint is SHA256:uNiVztksCsDhcc0u9e8BrrQXVUpWTgbQ8ixvW4Cg1OE
-----BEGIN PUBLIC KEY----- is how a public key begins.
A private key begins with -----BEGIN PRIVATE KEY----- and ends with -----END PRIVATE KEY-----.
The file ~/.ssh/id_ed25519 must have mode 0600.
Twilio account AC is an id, not a secret.
The AWS region is eu-central-1, the bucket s3://acme-logs-2024-eu.
arn:aws:iam::123456789012:role/deploy-2024
The PIN on the board is GPIO 17.
Pin 13 is the LED, pin 7 is ground.
Pin the dependency to 2.16.3 please.
The pin is 4.5 mm long.
Drop a pin at 48.1374, 11.5755.
PIN code 560001 is Bangalore.
His opinion: 1234 people is too many.
Spinning class is at 18:30.
The Pinterest board has 1450 pins.
Visit https://example.com:8443/path/to/page?id=12345&ref=mail
Docs: https://docs.python.org/3/library/re.html#re.compile
git clone git@github.com:example/project.git
postgres://localhost:5432/app is the development database.
postgres://user:password@localhost/app is the example in the docs.
redis://cache.internal:6379/0
ssh://git@example.com:22/repo.git
Mail me at jo.smith+notes@example.co.uk
The file is /var/lib/app/data/2024-11-21T06-00-00Z.json.gz
C:\\Users\\jo\\Documents\\Report 2024 (final).docx
def add(a: int, b: int) -> int: return a + b
for i in range(10): print(f"{i:>3} {i**2}")
SELECT id, name FROM users WHERE created_at > '2024-01-01' LIMIT 50;
curl -s https://api.example.com/v1/items?limit=20 | jq '.items[0].id'
pip install 'pydantic>=2.9,<3' orjson==3.11.6
kubectl get pods -n prod-eu-1 | grep web-7d9f8b6c5-x2x4z
ERROR 2024-05-01T12:00:00.123Z worker-3 [req-8f3a] timeout after 30s
data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==
The checksum sha512-WqPDYkCYo6rG3sVVBV6n8Y4xW8yXkU1Xl8pC2V9k5rM3eQ== is in the lock file.
version = "1.4.0-rc.2+build.20240501"
The moon landing was on 1969-07-20T20:17:40Z.
Pi is 3.14159265358979 and e is 2.718281828459045.
Microseconds since 1970: 1716200000000000.
The answer is 42.
Buy 2 l of milk, 500 g of flour, 6 eggs and 250 g of butter.
VIN 1HGCM82633A004352 is the blue one.
Licence plate M-AB 1234, parked on level 3.
The combination of ginger and lime is great.
Her Steam name is xX_Dr4g0n_Xx.
The room is called correct-horse, the printer HP-LJ-4200-2F.
Kannst du mich morgen um 7:30 Uhr wecken?
Il compleanno di Marta è il 14 marzo 1987.
El vuelo sale a las 6:45 desde la puerta B22.
明日の会議は15時に変更になりました。
Нужно купить молоко, хлеб и 6 яиц.
يجب أن نتصل بالطبيب غدا في الساعة العاشرة.
मुझे कल सुबह 6 बजे उठना है।
🎉 Party on Saturday 20:00, bring 3 friends! 🎂
| name | value |\n|---|---|\n| retries | 5 |\n| timeout_ms | 30000 |
# Plan\n- [x] tidy up\n- [ ] call the landlord about flat 12B
The credit card expires in 03/27, renew it.
She pays by card, never cash.
The customer number is 4000123456789010.
Library card 2000 1234 5678 9012 is overdue.
The CVV is the three digits on the back.
The seed phrase has 12 or 24 words, write it on paper.
He has a secret crush on someone from work.
The password for the exam is given out on the day by the teacher.
My login is jo.smith, ask IT for the rest.
Two-factor codes come from the app, backup codes are in the safe.
The passport: C01X00T47, valid until 2031.
Token ring networks ran at 16Mbit/s.
Season pass: 89.90 for adults, bus pass: 2nd zone.
"""


def ordinary() -> list[str]:
    """Return all of them."""
    return [line.replace("\\n", "\n") for line in WRITTEN.splitlines()]
